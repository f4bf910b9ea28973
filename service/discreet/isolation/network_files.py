"""Reads files of road networks in a child, as uploads are read: the parsers are those of the
client, and never run in the API on bytes of strangers."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from typing import Any

from discreet.errors import Limit, PayloadTooLarge

MOST_NAMES = 60
"""Columns of a file, at most, whose meaning is asked for."""
LONGEST_NAME = 200
"""Characters of the name of such a column, at most."""
LONGEST_SENTENCE = 4000
"""Characters of a refusal, or of one note, at most."""
MOST_NOTES = 50
"""Faults, notes or warnings, at most."""
ENCODINGS = ("cp1252", "utf-16", "cp1250", "cp850", "iso-8859-15", "mac-roman")
"""Encodings of CSV beside UTF-8. Each is decoded in time linear in its bytes, which is not true of
all codecs of Python."""
OWN_NAMES = "some columns have unknown names: say below what each of them is, then send it again"


def read_network(
    arguments: dict[str, Any], payload: bytes, _: tuple[int, ...]
) -> tuple[dict[str, Any], bytes]:
    """`{name, zones, notes, warnings}` of the network in these files, and its JSON; or `{refused,
    columns}`: why the files are refused, each as `[option, sentence]`, and their columns.

    `arguments`: files, `[[name, bytes], …]` in the order in which the payload holds them; options
    as of `discreet_client.networks.read`; labels and choices, how sentences call these options;
    chosen, whether the user has said what the columns are; limit, of the network's JSON.
    """
    from discreet.problems.descriptions import printable  # noqa: PLC0415
    from discreet_client import networks  # noqa: PLC0415
    from discreet_client.networks import columns  # noqa: PLC0415
    from discreet_client.networks.roads import encodings  # noqa: PLC0415
    from discreet_client.option_words import Labels  # noqa: PLC0415
    from discreet_client.tables import TableError  # noqa: PLC0415

    files, first = [], 0
    for name, size in arguments["files"]:
        files.append(networks.FileInMemory(name, payload[first : first + size]))
        first += size
    options, words = arguments["options"], Labels(arguments["labels"], arguments["choices"])
    tables: Sequence[columns.Columns] = ()
    try:
        tables = columns.tables_of(files, *encodings(options.get("encoding")), words=words)
        if not arguments["chosen"] and any(table.unknown for table in tables):
            raise TableError(OWN_NAMES, "columns")
        found = networks.read(*files, words=words, **options)
    except TableError as error:
        told = [[about, says[:LONGEST_SENTENCE]] for about, says in error.faults[:MOST_NOTES]]
        return printable({"refused": told, "columns": [*map(_shown, tables)]}), b""
    text = json.dumps(found.network, ensure_ascii=False, separators=(",", ":"))
    network = text.encode(errors="replace")
    limit = Limit(**arguments["limit"])
    if len(network) > limit.allowed:
        says = f"as a network these files have {len(network):,} bytes, and at most "
        raise PayloadTooLarge(
            f"{says}{limit.allowed:,} ({limit.setting}) are taken",
            limit=Limit(limit.setting, limit.unit, limit.allowed, len(network)),
        )
    notes = [note[:LONGEST_SENTENCE] for note in [*found.notes, *found.left_out][:MOST_NOTES]]
    warnings = [one[:LONGEST_SENTENCE] for one in found.warnings[:MOST_NOTES]]
    answer = {"name": found.name, "zones": found.zones, "notes": notes, "warnings": warnings}
    return printable(answer), network


def _shown(table: Any) -> dict[str, Any]:
    """The columns of a file that a page asks about, those with guesses first."""
    known = [name for name in table.columns if 0 < len(name) <= LONGEST_NAME]
    first = sorted(known, key=lambda name: name not in table.guessed)[:MOST_NAMES]
    return {
        "file": table.file[:LONGEST_NAME],
        "of": table.of,
        "roles": table.roles,
        "columns": [[name, table.guessed.get(name, "")] for name in first],
        "more": len(table.columns) - len(first),
    }


# Before the walls ---------------------------------------------------------------------------------

_LINKS = "from;Name;length;speed;capacity;lanes\n"
_LINE = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
_POINT = {"type": "Point", "coordinates": [0, 0]}
_MEASURED = {"units": "km,kph", "distance_weight": 1, "period_minutes": 30, "both_ways": True}
_GMNS = "link_id,from_node_id,to_node_id,length,free_speed,capacity,geometry\n"


def warm_up() -> None:
    """Read valid and faulty files of every format, so that children need to open no file of code
    for that."""
    for encoding in ENCODINGS:
        codecs.lookup(encoding)
    lines = [
        {"type": "Feature", "geometry": _LINE, "properties": {"fft": 1, "capacity": 1}},
        {"type": "Feature", "geometry": _POINT, "properties": {"zone": "Ä"}},
    ]
    links = "tail,head,length,speed,capacity\n1,2,1,30,9\n"
    gmns = f'{_GMNS}1,1,2,1,30,9,"LINESTRING (0 0, 1 1)"\n'
    head = "<NUMBER OF NODES> 2\n<NUMBER OF ZONES> 2\n<END OF METADATA>\n"
    tntp = f"{head}1 2 1 1 1 0.15 4 0 0 1 ;\n"
    rehearsed: tuple[tuple[dict[str, str], dict[str, Any]], ...] = (
        ({"a.csv": links, "b.csv": "node,x,y,zone\n1,0,0,1\n2,1,1,2\n"}, _MEASURED),
        ({"a.csv": links}, {}),
        ({"a.csv": _LINKS}, {"encoding": "cp1252"}),
        ({"a.csv": links}, {"encoding": "utf-16"}),
        ({"a.csv": links.replace("30", "x").replace("9", "")}, _MEASURED),
        ({"a.csv": links, "b.csv": links}, {}),
        ({"link.csv": gmns, "node.csv": "node_id,x_coord,y_coord\n1,0,0\n2,1,1\n"}, _MEASURED),
        ({"link.csv": gmns.replace("1,1,2", "1,1,3")}, {}),
        ({"a_net.tntp": tntp, "a_node.tntp": "node x y ;\n1 0 0 ;\n2 1 1 ;\n"}, {}),
        ({"a_net.tntp": tntp.replace("0.15", "x")}, {}),
        ({"a.geojson": json.dumps({"features": lines})}, {"columns": {"free_flow_time": "fft"}}),
        ({"a.geojson": "[" * 100_000, "b.txt": ""}, {}),
        ({"a.txt": ""}, {}),
    )
    for files, options in rehearsed:
        bodies = {name: text.encode() for name, text in files.items()}
        for chosen in (False, True):
            arguments = {
                "files": [[name, len(body)] for name, body in bodies.items()],
                "options": options,
                "labels": {"units": "units", "doubled": "doubled"},
                "choices": {"doubled": {"keep-first": "once", "sum": "summed"}},
                "chosen": chosen,
                "limit": {"setting": "job_body_bytes", "unit": "bytes", "allowed": 1 << 20},
            }
            read_network(arguments, b"".join(bodies.values()), ())
