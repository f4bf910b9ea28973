"""The columns of a road network's files, and the likely role of each.

    for table in tables_of([FileInMemory("strassen.csv", content)]):
        table.columns, table.guessed  # ["Von-Knoten", …], {"Von-Knoten": "tail", …}

Guesses are proposals only: they fill in a form, or are shown to whoever reads the files. A column
with the name of a role has that role.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from discreet_client.networks.geojson import features_of
from discreet_client.networks.gmns import OF_NODE
from discreet_client.networks.measures import KILOMETRES, SPEEDS
from discreet_client.networks.roads import (
    LENGTH,
    LINK,
    LINK_OPTIONAL,
    NODE,
    NODE_NAME,
    PLACE,
    AnyFile,
)
from discreet_client.option_words import PYTHON, Words
from discreet_client.tables import header_of

_OF_LINKS = (*LINK[:3], *LENGTH, LINK[3], "lanes", "name", "directed", "toll", *LINK_OPTIONAL)
LINK_ROLES = tuple(dict.fromkeys(_OF_LINKS))
NODE_ROLES = (*NODE, NODE_NAME, *PLACE, "zone")
POINT_ROLES = (*NODE, "zone")
USUAL = {
    "tail": "from fromnode fromnodeid initnode anode u von vonknoten anfangsknoten startknoten",
    "head": "to tonode tonodeid termnode bnode v nach nachknoten bis bisknoten endknoten",
    "free_flow_time": "fft vdffftt freeflowtime t0 traveltime time fahrzeit reisezeit zeit",
    "length": "len distance dist km laenge entfernung strecke longueur",
    "speed": "freespeed maxspeed speedlimit vmax v0 tempo geschwindigkeit hoechstgeschwindigkeit "
    "kmh vitesse",
    "capacity": "cap capacities kap kapazitaet leistungsfaehigkeit kfzh fzgh capacite",
    "lanes": "lane numlanes nlanes spuren fahrspuren fahrstreifen voies",
    "name": "street streetname roadname strasse strassenname bezeichnung rue",
    "directed": "oneway einbahnstrasse einbahn",
    "toll": "maut gebuehr peage",
    "fixed_cost": "fixedcost festkosten",
    "b": "bprb vdfalpha",
    "power": "bprpower vdfbeta",
    "node": "nodeid id knoten knotennummer knotennr nr number nummer",
    "node_name": "nodename knotenname name bezeichnung ort",
    "x": "xcoord xkoordinate lon lng long longitude laenge laengengrad easting rechtswert",
    "y": "ycoord ykoordinate lat latitude breite breitengrad northing hochwert",
    "zone": "zoneid taz bezirk verkehrszelle zelle",
}
"""The usual names of each role in files, in lower case and without separators."""
LONGEST_NAME = 200
"""Characters of a column's name that is compared with them, at most."""
_WORDS = {role: frozenset(words.split()) for role, words in USUAL.items()}
_IN_BRACKETS = re.compile(r"[\[(][^\[\]()]*[\])]")
_UNIT_AT_END = re.compile(r"(?<=\w)[ _-](?:km|m|mi|ft|km/?h|mph|min|(?:kfz|fz|pcu|veh)/?h)$")
_UNIT_WORDS = re.compile(r"[^\W\d_]+(?:/[^\W\d_]+)?")
_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "é": "e", "è": "e"})


class Columns(NamedTuple):
    """The columns of a file of links or of nodes, or of the lines or points of a GeoJSON file."""

    file: str
    of: str
    """links or nodes."""
    columns: list[str]
    roles: tuple[str, ...]
    """What each column may be."""
    guessed: dict[str, str]
    """The likely role of columns, each role once."""

    @property
    def unknown(self) -> dict[str, str]:
        """Guesses for columns that are not named like their role: a reader must be told the role,
        or leaves the column out."""
        return {column: role for column, role in self.guessed.items() if column != role}


def tables_of(
    files: Sequence[AnyFile], *encodings: str | None, words: Words = PYTHON
) -> list[Columns]:
    """The tables whose columns may be given roles: none of TNTP, whose columns have fixed places,
    and of GMNS only what else the file of nodes has, for their names. TableError if a file cannot
    be read at all."""
    suffixes = [file.suffix.lower() for file in files]
    if any(suffix in (".geojson", ".json") for suffix in suffixes):
        return [found for file in files for found in _of_features(file)]
    if any(suffix != ".csv" for suffix in suffixes):
        return []
    headers = {
        file: header_of(file.read_bytes(), file.name, *encodings, words=words) for file in files
    }
    if any({"from_node_id", "free_speed"} <= set(header) for header in headers.values()):
        own = {*OF_NODE, *NODE, *PLACE, "zone"}
        return [
            _columns(file.name, "nodes", left, (NODE_NAME,))._replace(guessed={})
            for file, header in headers.items()
            if "node_id" in header and (left := [one for one in header if one not in own])
        ]
    return [
        _columns(file.name, *(("links", header, LINK_ROLES) if known else _of_nodes(header)))
        for file, header in headers.items()
        for known in (len(files) == 1 or {*LINK[:2]} <= {*guess(header, LINK_ROLES).values()},)
    ]


def guess(columns: Iterable[str], roles: Iterable[str]) -> dict[str, str]:
    """The likely role of each of these columns that has one: by its exact name, else by a usual
    one."""
    columns, roles = list(columns), list(roles)
    found = {name: name for name in columns if name in roles}
    left = [role for role in roles if role not in found.values()]
    for name in columns:
        word = _word(name)
        role = next((one for one in left if word == _word(one) or word in _WORDS[one]), None)
        if name not in found and role is not None:
            found[name] = role
            left.remove(role)
    return found


def units_of_headings(guessed: Mapping[str, str]) -> tuple[str, str] | None:
    """The units of length and speed that the headings of these columns name, by their roles
    (`Länge km`, `Tempo [km/h]`); None unless both do, as both are needed."""
    heading = {role: column[:LONGEST_NAME].lower() for column, role in guessed.items()}
    found = []
    for role, units in (("length", KILOMETRES), ("speed", SPEEDS)):
        words = _UNIT_WORDS.findall(heading.get(role, ""))
        found.append(words[-1] if words and words[-1] in units else None)
    length, speed = found
    return None if length is None or speed is None else (length, speed)


def _of_nodes(header: list[str]) -> tuple[str, list[str], tuple[str, ...]]:
    return "nodes", header, NODE_ROLES


def _of_features(file: AnyFile) -> list[Columns]:
    names: dict[str, dict[str, Any]] = {"LineString": {}, "Point": {}}
    for feature in features_of(file):
        geometry = feature.get("geometry") if isinstance(feature, dict) else None
        kind = geometry.get("type") if isinstance(geometry, dict) else None
        properties = feature.get("properties") if isinstance(feature, dict) else None
        kind = "LineString" if kind == "MultiLineString" else kind
        if isinstance(kind, str) and kind in names and isinstance(properties, dict):
            names[kind].update(dict.fromkeys(properties))
    lines = _columns(file.name, "links", list(names["LineString"]), LINK_ROLES)
    points = _columns(file.name, "nodes", list(names["Point"]), POINT_ROLES)
    return [one for one in (lines, points) if one.columns]


def _columns(file: str, of: str, columns: list[str], roles: tuple[str, ...]) -> Columns:
    return Columns(file, of, columns, roles, guess(columns, roles))


def _word(name: str) -> str:
    """A name as it is compared: without units in brackets or at its end, case, signs and accents.
    Empty for a name longer than any column has: normalizing combining marks that pile up takes
    quadratic time."""
    if len(name) > LONGEST_NAME:
        return ""
    plain = unicodedata.normalize("NFC", _IN_BRACKETS.sub("", name)).lower().translate(_LETTERS)
    plain = _UNIT_AT_END.sub("", plain.strip())
    return "".join(letter for letter in plain if letter.isalnum())
