"""`make screenshots`: every page of the dashboard, light, dark and narrow, from a server with real
jobs.

    python -m tests.dashboard.screenshots [NAME…]

Pictures go to `docs/pictures/dashboard`; with names only those are taken again.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from discreet.installation.prepared import running
from discreet.settings import Settings
from discreet_client.client import Client
from tests.dashboard.chromium import Watched, chromium, chromium_path, tab
from tests.dashboard.seed import tenant

PICTURES = Path(__file__).parents[2] / "docs" / "pictures" / "dashboard"
FRONT = {("budgets", "light"): "body", ("job-routing", "dark"): "#result"}
"""Of these pages the README shows one window, from this element on."""
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


def pages(client: Client, jobs: dict[str, str]) -> dict[str, str]:
    """The address of each page by its picture's name; everything that an owner sees."""
    routed = client.job(jobs["routing"])
    account = next(
        one["id"]
        for one in client.budgets()
        if routed["dataset"] in [d["id"] for d in one["datasets"]]
    )
    policy = client.result(jobs["routing"])["result"]["policy"]
    pair = max(policy, key=lambda one: len(one["paths"]))
    named = {f"job-{name.replace('_', '-')}": f"/jobs/{job}" for name, job in jobs.items()}
    return {
        "budgets": "/",
        "budget": f"/budgets/{account}",
        "ledger": "/ledger",
        "ledger-entry": f"/ledger/{account}/2",
        "jobs": "/jobs",
        "job-new": "/jobs/new?kind=routing",
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


def take(seen: Watched, name: str, look: str) -> None:
    """One picture of the whole page."""
    seen.draw()
    if (name, look) in FRONT:
        seen.page.evaluate(
            "place => document.querySelector(place).scrollIntoView()", FRONT[name, look]
        )
        save(seen.page.screenshot(animations="disabled"), f"front-{name}")
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


def look_at(
    browser: Browser, look: str, url: str, keys: dict[str, str], addresses: dict[str, str]
) -> None:
    with tab(browser, url, **LOOKS[look]) as seen:
        seen.go("/login")
        if "login" in addresses:
            take(seen, "login", look)
        seen.login(keys["owner"])
        for name, address in addresses.items():
            if name in ("login", "operator", "dataset-content", "job-price", "job-refused"):
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
    if "operator" in addresses:
        with tab(browser, url, **LOOKS[look]) as seen:
            seen.login(keys["operator"])
            seen.go("/operations")
            take(seen, "operator", look)


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
                jobs |= tenant().session(client, Path(folder))
                addresses = pages(client, jobs)
                asked = {
                    f"job-{name}": question(client, jobs, epsilon)
                    for name, epsilon in QUESTIONS.items()
                }
            everything = {**addresses, **asked, "login": "", "operator": "", "dataset-content": ""}
            addresses = {
                name: one for name, one in everything.items() if not wanted or name in wanted
            }
            with chromium() as browser:
                for look in LOOKS:
                    look_at(browser, look, ready["api"], keys, addresses)
                    print(f"{look}: {len(addresses)} pages", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
