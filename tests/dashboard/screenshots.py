"""`make screenshots`: every page of the dashboard, light, dark and narrow, from a server with real
jobs.

    python -m tests.dashboard.screenshots [NAME…]

Pictures go to `docs/pictures/dashboard`; with names only those are taken again.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page

from discreet.installation.prepared import running
from discreet.settings import Settings
from discreet_client.client import Client
from tests.dashboard.chromium import Watched, chromium, chromium_path, tab
from tests.dashboard.seed import EXAMPLES, tenant
from tests.dashboard.ways import WAYS, walked

PICTURES = Path(__file__).parents[2] / "docs" / "pictures" / "dashboard"
QUESTIONS = {"price": 0.5, "refused": 7.0}
"""What is asked for in the pictures job-price and job-refused."""
LOOKS = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "narrow": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "light",
        "has_touch": True,
    },
}


FILES: dict[str, tuple[str, dict[str, Any], str, str, dict[str, str]]] = {
    "dataset-trips": (
        "routing",
        {"unit": "request", "zones": 24, "periods": 5, "period_minutes": 120},
        "trips",
        "trips.csv",
        {"origin": "from_zone", "destination": "to_zone", "period": "start"},
    ),
    "dataset-meters": (
        "dr_ensemble",
        {
            "unit": "participant",
            "participants": 300,
            "states": 4,
            "edges": [0, 0.5, 2, 4, 7],
            "steps": 48,
            "meters": {"start": "2026-01-15T00:00:00+01:00", "interval_seconds": 1800},
        },
        "meters",
        "meters.csv",
        {"participant": "meter", "time": "when", "kw": "power"},
    ),
    "dataset-visits": (
        "off_policy_evaluation",
        {
            "unit": "trajectory",
            "horizon": 4,
            "reward_bound": 1,
            "features": 1,
            "ranges": [{"name": "severity", "low": 0, "high": 10}],
        },
        "patients",
        "visits.csv",
        {"patient": "pid", "time": "date", "reward": "well"},
    ),
}
"""Own files of the examples on the page that reads them: kind, public part, way in, file,
columns."""


def pages(client: Client, jobs: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    """The address of each page by its picture's name; everything that an owner sees."""
    routed = client.job(jobs["routing"])
    account = next(
        one["id"]
        for one in client.budgets()
        if routed["dataset"] in [d["id"] for d in one["datasets"]]
    )
    policy = client.result(jobs["routing"])["result"]["policy"]
    pair = max(policy, key=lambda one: len(one["paths"]))
    network = client.networks.add(routed["problem"]["network"], name="Town")["id"]
    named = {f"job-{name.replace('_', '-')}": f"/jobs/{job}" for name, job in jobs.items()}
    return {
        "budgets": "/",
        "budget": f"/budgets/{account}",
        "ledger": "/ledger",
        "ledger-entry": f"/ledger/{account}/2",
        "jobs": "/jobs",
        "job-new": "/jobs/new?kind=routing",
        "job-new-agents": "/jobs/new?kind=multi_agent",
        "job-rehearsal": f"/jobs/{others['rehearsal']}",
        "what-if": f"/jobs/{jobs['dr_ensemble']}",
        "compare": f"/jobs/compare?job={jobs['dr_ensemble']}&job={jobs['dr_simulation']}",
        "networks": "/networks",
        "network": f"/networks/{network}",
        "network-new": "/networks/new",
        "sources": "/sources",
        "source": f"/sources/{others['source']}",
        "changes": "/changes",
        "dataset-new-agents": "/datasets/new?kind=multi_agent",
        **named,
        "certificate": f"/jobs/{jobs['routing']}/certificate",
        "paths": f"/jobs/{jobs['routing']}/policy?origin={pair['origin']}"
        f"&destination={pair['destination']}",
        "datasets": "/datasets",
        "dataset": f"/datasets/{routed['dataset']}",
        "dataset-new": "/datasets/new?kind=routing",
        "dataset-delete": f"/datasets/{routed['dataset']}/delete",
        "audit": "/audit",
        "admin": "/admin",
        "not-found": "/jobs/job_of_another_tenant",
        "help": "/help",
        "help-search": "/help/search?q=own+columns",
        "help-page": "/help/own-files#trips",
    }


def question(client: Client, jobs: dict[str, str], epsilon: float) -> str:
    """What a job on the patients would cost, as it is typed into the form."""
    problem = {
        "kind": "off_policy_evaluation",
        "dataset": client.job(jobs["off_policy_evaluation"])["dataset"],
        "features": {"type": "tabular"},
        "discount": 0.99,
    }
    return json.dumps({"problem": problem, "privacy": {"epsilon": epsilon}}, indent=2)


def map_columns(seen: Watched, name: str, folder: Path) -> None:
    """Lead to the page of the content with an own file chosen, all but ready to be sent."""
    kind, public, way, file, columns = FILES[name]
    page = seen.page
    if not (folder / file).exists():
        subprocess.run(
            [sys.executable, str(EXAMPLES / "own_files.py"), way], cwd=folder, check=True
        )
    seen.go(f"/datasets/new?kind={kind}")
    page.get_by_label("Name", exact=True).fill(f"own {way}")
    page.get_by_text("As JSON", exact=True).click()
    page.locator("#public").fill(json.dumps(public))
    seen.other_people()
    page.get_by_role("button", name="Next: the content").click()
    page.get_by_label("CSV, Excel, Parquet").set_input_files(folder / file)
    page.get_by_role("button", name="Send it, and see").click()
    page.locator("#outcome").wait_for()
    for column, own in columns.items():
        page.get_by_label(column, exact=True).and_(page.locator("select")).select_option(own)
    if way == "trips":
        zones = "\n".join(f"Z{zone}" for zone in range(1, 25))
        page.get_by_label("Your zones by name").fill(zones)
        page.get_by_label("Period 0 begins").fill("2026-11-02T07:00")
    elif way == "meters":
        page.get_by_label("Time zone of times").fill("Europe/Berlin")
    else:
        page.get_by_label("Known probability of each").fill("treat: 0.5\nwait: 0.5")
        page.get_by_label("Policy to be evaluated").fill("treat: 1\nwait: 0")
    page.keyboard.press("Tab")
    page.locator("#outcome-status", has_text="all of them can be read").wait_for()


def take(seen: Watched, name: str, look: str) -> None:
    """One picture of the whole page, with the price of what its form says."""
    seen.draw()
    if seen.page.locator("#what-if").count():  # it appears when the page knows what is free
        seen.page.locator("#what-if:not([hidden])").wait_for()
    if seen.page.locator("#quote-status").count():
        seen.page.locator(
            "#quote-status", has_text=re.compile("It would cost|Refused|fit")
        ).wait_for()
    seen.page.evaluate("scrollTo(0, 0)")
    save(seen.page.screenshot(full_page=True, animations="disabled"), f"{name}-{look}")


def save(png: bytes, name: str) -> None:
    small(Image.open(io.BytesIO(png)).convert("RGB")).save(PICTURES / f"{name}.png", optimize=True)


def small(picture: Image.Image) -> Image.Image:
    """The picture with at most 256 colours: the most frequent ones, so that flat ground stays as it
    is, and of all the others, each counted once, what stands for them best, so that thin lines keep
    their colours."""
    counted = picture.getcolors(maxcolors=1 << 24)
    assert counted is not None
    colours = [colour for _, colour in sorted(counted, reverse=True)]
    chosen, others = colours[:128], colours[128:]
    if others:
        strip = Image.new("RGB", (len(others), 1))
        strip.putdata(others)
        found = strip.quantize(128, method=Image.Quantize.MEDIANCUT).getpalette() or []
        chosen += [tuple(found[place : place + 3]) for place in range(0, len(found), 3)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in chosen[:256] for part in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


OPERATORS = {"operator": "/operations", "operator-admin": "/admin", "operator-changes": "/changes"}
LED_TO = ("login", *OPERATORS, "dataset-content", *FILES, "what-if", "job-price", "job-refused")
"""Pictures of what no address alone leads to."""


FRAME, ACROSS, GAP = (480, 300), 3, 8
"""Pixels of a page in the picture of a way, pages beside each other, and between them."""


def walk(browser: Browser, url: str, key: str, way: str, folder: Path) -> None:
    """A picture of all pages between login and answer, in their order, as `test_keyboard` goes this
    way."""
    frames: list[Image.Image] = []

    def look(page: Page) -> None:
        frames.append(Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB"))

    with tab(browser, url, **LOOKS["light"]) as seen:
        walked(seen, way, key, folder, look)
        seen.draw()
        seen.page.evaluate("scrollTo(0, 0)")
        look(seen.page)
    frames = [frame.resize(FRAME, Image.Resampling.LANCZOS) for frame in frames[:-2] + frames[-1:]]
    rows = -(-len(frames) // ACROSS)
    size = (ACROSS * (FRAME[0] + GAP) - GAP, rows * (FRAME[1] + GAP) - GAP)
    sheet = Image.new("RGB", size, "#8a949e")
    for place, frame in enumerate(frames):
        sheet.paste(frame, (place % ACROSS * (FRAME[0] + GAP), place // ACROSS * (FRAME[1] + GAP)))
    out = io.BytesIO()
    sheet.save(out, "PNG")
    save(out.getvalue(), f"way-{way}")


def look_at(
    browser: Browser,
    look: str,
    url: str,
    keys: dict[str, str],
    addresses: dict[str, str],
    folder: Path,
) -> None:
    with tab(browser, url, **LOOKS[look]) as seen:
        seen.go("/login")
        if "login" in addresses:
            take(seen, "login", look)
        seen.login(keys["owner"])
        for name, address in addresses.items():
            if name in LED_TO:
                continue
            seen.go(address)
            take(seen, name, look)
        for name in {"job-price", "job-refused"} & addresses.keys():
            seen.go("/jobs/new")
            seen.page.get_by_role("tab", name="JSON").click()
            seen.page.get_by_label("The job as JSON").fill(addresses[name])
            seen.page.get_by_role("button", name="What would this cost?").click()
            seen.page.locator("#price").wait_for()
            take(seen, name, look)
        if "dataset-content" in addresses:
            seen.go("/datasets/new?kind=routing")
            seen.page.get_by_label("Name", exact=True).fill("evening trips")
            seen.other_people()
            seen.page.get_by_role("button", name="Next: the content").click()
            take(seen, "dataset-content", look)
        for name in FILES.keys() & addresses.keys():
            map_columns(seen, name, folder)
            take(seen, name, look)
        if "what-if" in addresses:
            seen.go(addresses["what-if"])
            seen.page.get_by_role("slider", name="Discomfort weight: slider").press("PageUp")
            seen.page.locator("[data-ask-status]", has_text="Updated. Price: 0.").wait_for()
            take(seen, "what-if", look)
    wanted = {name: address for name, address in OPERATORS.items() if name in addresses}
    if wanted:
        with tab(browser, url, **LOOKS[look]) as seen:
            seen.login(keys["operator"])
            for name, address in wanted.items():
                seen.go(address)
                take(seen, name, look)


def main(wanted: list[str]) -> None:
    if chromium_path() is None:
        raise SystemExit("screenshots need chromium: apt-get install chromium")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="discreet screenshots ") as folder:
        settings = Settings(state=Path(folder) / "state")
        print("starting a server with a tenant's life …", flush=True)
        with running(settings) as ready:
            keys = {
                name: (settings.state / f"{name}.key").read_text().strip()
                for name in ("owner", "operator")
            }
            with Client(ready["api"], keys["owner"]) as client:
                analyst = client.create_key(role="analyst", principal="Ada")["key"]
                with Client(ready["api"], analyst) as second:
                    jobs = tenant().fill(client, second)
                    others = tenant().more(client, second, jobs)
                jobs |= tenant().session(client, Path(folder))
                addresses = pages(client, jobs, others)
                asked = {
                    f"job-{name}": question(client, jobs, epsilon)
                    for name, epsilon in QUESTIONS.items()
                }
            everything = {**dict.fromkeys(LED_TO, ""), **addresses, **asked}
            addresses = {
                name: one for name, one in everything.items() if not wanted or name in wanted
            }
            with chromium() as browser:
                for look in LOOKS:
                    look_at(browser, look, ready["api"], keys, addresses, Path(folder))
                    print(f"{look}: {len(addresses)} pages", flush=True)
                for way in [way for way in WAYS if not wanted or f"way-{way}" in wanted]:
                    with Client(ready["api"], keys["operator"]) as client:
                        client.create_tenant(way)
                        key = client.create_key(role="owner", principal="owner", tenant=way)["key"]
                    walk(browser, ready["api"], key, way, Path(folder))
                    print(f"way-{way}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
