"""The TypeScript SDK: `node --test` and its README's quickstart, against the running service."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.node import BIN, SDK, execute, installed
from tests.clients.sdk_examples import examples
from tests.conftest import Installation
from tests.dashboard.chromium import chromium, chromium_path, missing, tab


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SDK compiled and packed in a folder of its own."""
    installed()
    folder = tmp_path_factory.mktemp("typescript")
    for name in ("package.json", "tsconfig.json", "README.md"):
        shutil.copy(SDK / name, folder)
    for name in ("src", "test"):
        shutil.copytree(SDK / name, folder / name)
    (folder / "node_modules").symlink_to(SDK / "node_modules")
    execute([str(shutil.which("npm")), "pack", "--silent", "--offline"], folder)
    return folder


@pytest.fixture(scope="module")
def user(built: Path) -> Path:
    """A project that has the packed SDK and its one dependency, and the quickstart of its README as
    a program."""
    folder = built.parent / f"{built.name}-user"
    modules = folder / "node_modules"
    modules.mkdir(parents=True)
    (pack,) = built.glob("*.tgz")
    shutil.unpack_archive(pack, modules, filter="data")
    (modules / "package").rename(modules / "discreet-client")
    for name in ("openapi-fetch", "openapi-typescript-helpers", "@types", "undici-types"):
        (modules / name).symlink_to(SDK / "node_modules" / name)
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(SDK / "tsconfig.json", folder)
    (folder / "src").mkdir()
    (block,) = re.findall(r"```ts\n(.*?)```", (SDK / "README.md").read_text(), re.DOTALL)
    (folder / "src" / "quickstart.ts").write_text(block)
    execute([str(BIN / "tsc"), "--skipLibCheck", "false"], folder)
    return folder


def run(folder: Path, service: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DISCREET_URL": service.url, "DISCREET_KEY": service.owner_key}
    environment["DISCREET_EXAMPLES"] = str(folder / "examples.json")
    return subprocess.run(
        [str(shutil.which("node")), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_sdk_against_the_service(built: Path, service: Installation) -> None:
    """Every kind end to end, lost answers, broken streams, typed errors:
    clients/typescript/test/sdk.test.ts."""
    (built / "examples.json").write_text(json.dumps(examples(5)))
    done = run(built, service, "--test", "--test-reporter=tap", "dist/test/sdk.test.js")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert len(re.findall(r"^\s*ok \d+ - \w+ runs end to end$", done.stdout, re.MULTILINE)) == 5


@pytest.mark.parametrize(("file", "passed"), [("uploads", 7), ("rows", 7)])
def test_what_needs_no_service(built: Path, file: str, passed: int) -> None:
    """Files are sent as they are, from blobs and streams; fields are rows:
    clients/typescript/test/{uploads,rows}.test.ts."""
    done = execute(
        [str(shutil.which("node")), "--test", "--test-reporter=tap", f"dist/test/{file}.test.js"],
        built,
    )
    assert re.search(rf"^# pass {passed}$", done, re.MULTILINE)


@pytest.mark.long
def test_the_quickstart(user: Path, service: Installation) -> None:
    done = run(user, service, "dist/src/quickstart.js")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "costs epsilon 0.1, admitted: true"
    assert "state { state: 'succeeded' }" in lines
    assert lines[-1] == "left 0.9"


IN_A_BROWSER = """async ([key, csv]) => {
  const { createDiscreet, BudgetExhausted, verifyWebhook } = await import("discreet-client");
  const discreet = createDiscreet({ baseUrl: location.origin, key });
  const dataset = await discreet.datasets.add(new File([csv], "trips.csv"), {
    name: "from a browser", kind: "routing", cap: { epsilon: 0.5 },
    public: { unit: "request", zones: 2, periods: 2, period_minutes: 60 },
  });
  const link = (tail, head) => ({ tail, head, free_flow_time: 10, capacity: 600 });
  const network = { nodes: 2, links: [link(1, 2), link(2, 1)] };
  const problem = { kind: "routing", dataset, network };
  const seen = [];
  const onEvent = (event) => seen.push(event.event);
  const answer = await discreet.solve(problem, { epsilon: 0.2, onEvent });
  let largest = null;
  try {
    await discreet.solve(problem, { epsilon: 0.4, anew: true });
  } catch (error) {
    if (!(error instanceof BudgetExhausted)) throw error;
    largest = error.binding.largest.epsilon;
  }
  const names = [];
  for await (const one of discreet.datasets.list()) names.push(one.name);
  return {
    flows: answer.result.link_flows.length, rows: await answer.rows("link_flows"),
    seen, largest, names, webhook: typeof verifyWebhook,
    left: (await discreet.budget(dataset.account)).remaining.epsilon,
  };
}"""


@pytest.mark.long
def test_the_packed_sdk_runs_in_a_browser(user: Path, service: Installation) -> None:
    """As it is packed, without a bundler: a File is sent, events come, errors have their types."""
    if chromium_path() is None:
        missing("chromium")
    modules = user / "node_modules"
    imports = {
        "discreet-client": "/sdk/discreet-client/dist/src/index.js",
        "openapi-fetch": "/sdk/openapi-fetch/dist/index.mjs",
    }
    page = f'<!doctype html><script type="importmap">{json.dumps({"imports": imports})}</script>'
    with chromium() as browser, tab(browser, service.url) as seen:
        seen.page.route(
            "**/sdk/page.html", lambda route: route.fulfill(body=page, content_type="text/html")
        )
        seen.page.route(
            "**/sdk/*/dist/**",
            lambda route: route.fulfill(
                path=modules / route.request.url.partition("/sdk/")[2],
                content_type="text/javascript",
            ),
        )
        seen.go("/sdk/page.html")
        key = service.owner_of("a browser")
        csv = "period,origin,destination,count\n0,1,2,940\n1,1,2,1010\n"
        found = seen.page.evaluate(IN_A_BROWSER, [key, csv])
    assert found["flows"] == 2
    assert [(row["link"], row["tail"], row["head"]) for row in found["rows"]] == [
        (0, 1, 2),
        (1, 2, 1),
    ]
    assert found["seen"][-1] == "state"
    assert (found["largest"], found["left"]) == (0.3, 0.3)
    assert found["names"] == ["from a browser"]
    assert found["webhook"] == "function"
