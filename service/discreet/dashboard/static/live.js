// What makes pages live. Every page works without this file.

// Light and dark without loading the page again; the cookie is the server's to set, so it knows at the next page.
const themes = document.querySelector("form.theme");
themes?.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (button === null) return;
  event.preventDefault();
  document.documentElement.dataset.theme = button.value;
  for (const other of themes.querySelectorAll("button")) {
    other.setAttribute("aria-pressed", String(other === button));
  }
  const body = new URLSearchParams(new FormData(themes, button));
  fetch(themes.action, { method: "POST", body, redirect: "manual" });
});

// A stream of events. Browsers resume one that broke by themselves, but not one that was refused, as by a server
// that is full or starting: that is asked for again.
const AGAIN_MILLISECONDS = 5000;
function listen(address, handlers) {
  let source;
  const open = () => {
    source = new EventSource(address);
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    }
    source.addEventListener("error", () => source.readyState === EventSource.CLOSED && setTimeout(open, AGAIN_MILLISECONDS));
  };
  open();
  const close = () => source.close();
  addEventListener("pagehide", close);
  return close;
}

// The list of jobs: rows come ready from the server, each sent again when it has changed.
const rows = document.querySelector("[data-jobs]");
if (rows) {
  const note = document.querySelector("[data-live-note]");
  const region = rows.closest(".scroll");
  listen(rows.dataset.jobs, {
    row({ id, html }) {
      const template = document.createElement("template");
      template.innerHTML = html; // rendered and escaped by the server
      const fresh = template.content.querySelector("tr");
      const old = document.getElementById(id);
      if (old) {
        if (old.outerHTML === fresh.outerHTML) return;
        fresh.querySelector("input").checked = old.querySelector("input").checked;
        const before = old.querySelector(".tag")?.textContent;
        const now = fresh.querySelector(".tag")?.textContent;
        if (old.contains(document.activeElement)) {
          // Keep the focus: only the cells that hold no link are exchanged.
          [...fresh.cells].forEach((cell, place) => {
            if (!old.cells[place].contains(document.activeElement)) old.cells[place].replaceWith(cell.cloneNode(true));
          });
        } else {
          old.replaceWith(fresh);
        }
        if (before !== now) note.textContent = `Job ${id.slice(0, 12)}… is ${now}.`;
      } else {
        rows.prepend(fresh);
        region.hidden = false;
        document.getElementById("compare").hidden = false;
        document.querySelector(".empty")?.remove();
      }
    },
    gone({ id }) {
      document.getElementById(id)?.remove();
    },
  });
}

// One job: progress as it comes; at its end the page is loaded again, now with its result.
const job = document.querySelector("[data-job]");
if (job) {
  const text = job.querySelector("[data-progress-text]");
  const bar = job.querySelector("progress");
  let waited = false; // the stream begins with what was before it waited
  const close = listen(job.dataset.job, {
    progress({ step, total }) {
      bar.max = total;
      bar.value = step;
      text.textContent = `Running: step ${step} of ${total}.`;
    },
    state({ state }) {
      if (["succeeded", "failed", "cancelled"].includes(state)) {
        close();
        text.textContent = `The job has ${state === "cancelled" ? "been cancelled" : state}.`;
        location.reload();
      } else if (state === "waiting") {
        waited = true;
      } else if (state === "queued" && waited && text.dataset.waits) {
        location.reload();
      } else if (state === "running") {
        text.textContent = "Running.";
        const tag = document.querySelector("[data-state] .tag");
        if (tag) tag.textContent = "running";
      }
    },
  });
}

// The chain goes on being verified until all of it is.
const chain = document.querySelector("[data-verification]");
if (chain) {
  const text = chain.querySelector("[data-verified-text]");
  for (;;) {
    const answer = await fetch(chain.dataset.verification, { headers: { Accept: "application/json" } });
    if (!answer.ok) break;
    const found = await answer.json();
    text.textContent = `verified to entry ${found.entries} of ${found.total}`;
    if (found.state !== "partial") {
      location.reload();
      break;
    }
  }
}

// The service reads what lies at an address before it answers.
for (const form of document.querySelectorAll("form[data-fetches]")) {
  const button = form.querySelector("button");
  const text = form.querySelector("[data-fetch-text]");
  form.addEventListener("submit", () => {
    button.disabled = true;
    text.textContent = "The service reads it there and checks every row.";
  });
  addEventListener("pageshow", () => {
    button.disabled = false;
    text.textContent = "";
  });
}

for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => {
    if (!confirm(form.dataset.confirm)) event.preventDefault();
  });
}

for (const button of document.querySelectorAll("[data-print]")) {
  button.addEventListener("click", () => print());
}
