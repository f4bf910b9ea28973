// Forms with files, and what the service understood of a file. All of it works without this script, which shows how far
// a file has come, keeps chosen files when a form is refused, and looks again at every change of a field.

const main = document.getElementById("main");
const BROKEN = "The connection broke, or the file was changed since it was chosen. Send it again: the same content is registered only once.";

// Files ---------------------------------------------------------------------------------------------------------------

main.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-sends]");
  if (form === null) return;
  event.preventDefault();
  const button = form.querySelector("button:not([type])");
  const status = form.querySelector("[data-sending]");
  const bar = form.querySelector("progress");
  const request = new XMLHttpRequest();
  const stopped = (says) => {
    button.disabled = false;
    if (bar) bar.hidden = true;
    status.textContent = says;
  };
  request.open("POST", form.action);
  request.setRequestHeader("Accept", "text/html");
  request.responseType = "document";
  button.disabled = true;
  if (bar) bar.hidden = false;
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    if (bar) bar.value = loaded / total;
    const says = loaded < total ? `${Math.floor((20 * loaded) / total) * 5} % sent` : "All sent; the service reads it.";
    if (status.textContent !== says) status.textContent = says;
  });
  request.addEventListener("load", () => {
    const page = request.response;
    if (request.responseURL !== form.action) location.assign(request.responseURL);
    else if (page?.querySelector("form[data-sends], form[data-looks]") || request.status < 300) show(page, form, request.getResponseHeader("Content-Location"));
    else stopped(page?.getElementById("main")?.textContent.replace(/\s+/g, " ").trim() || `Refused: status ${request.status}.`);
  });
  request.addEventListener("error", () => stopped(BROKEN));
  request.send(new FormData(form));
});

// The page of an answer, in place of this one; a refused form keeps its files.
async function show(page, form, place) {
  const fresh = page.getElementById("main");
  const isRefused = fresh.querySelector("#refusal") !== null;
  for (const input of form.querySelectorAll("input[type=file]")) {
    const other = fresh.querySelector(`#${CSS.escape(input.id)}`);
    if (other === null || !isRefused) continue;
    for (const name of ["aria-describedby", "aria-invalid"]) {
      if (other.hasAttribute(name)) input.setAttribute(name, other.getAttribute(name));
      else input.removeAttribute(name);
    }
    other.replaceWith(input);
  }
  document.title = page.title;
  main.replaceChildren(...fresh.childNodes);
  if (place !== null) history.replaceState(null, "", place);
  const known = new Set([...document.scripts].map((script) => script.src));
  for (const script of page.querySelectorAll("script[type=module][src]")) {
    const address = new URL(script.getAttribute("src"), location.href).href;
    if (!known.has(address)) await import(address);
  }
  const outcome = main.querySelector("form[data-looks]");
  (outcome ?? main).scrollIntoView();
  const focused = main.querySelector("#refusal") ?? outcome?.querySelector("select, input:not([type=hidden])") ?? main;
  focused.focus({ preventScroll: outcome !== null });
  if (outcome) say(outcome);
}

// What was understood -------------------------------------------------------------------------------------------------

let turn = 0; // of the latest look; earlier answers are dropped

main.addEventListener("change", async (event) => {
  const form = event.target.closest("form[data-looks]");
  if (form === null) return;
  const own = ++turn;
  form.querySelector("[data-looked]").textContent = "Looking again …";
  const body = new URLSearchParams(new FormData(form));
  body.set("look", "yes");
  const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } }).catch(() => null);
  const page = answer && new DOMParser().parseFromString(await answer.text(), "text/html");
  if (own !== turn) return;
  const fresh = page?.querySelector("form[data-looks]");
  if (!fresh) {
    form.querySelector("[data-looked]").textContent = page?.getElementById("main")?.textContent.replace(/\s+/g, " ").trim() ?? BROKEN;
    form.querySelector("[data-looked]").className = "notice refused";
    return;
  }
  form.querySelector("#outcome").replaceWith(fresh.querySelector("#outcome"));
  for (const error of form.querySelectorAll("p.error[id]")) {
    const other = fresh.querySelector(`#${CSS.escape(error.id)}`);
    error.replaceChildren(...(other?.childNodes ?? []));
    error.hidden = !error.hasChildNodes();
    const field = form.querySelector(`[aria-describedby~="${CSS.escape(error.id)}"]`);
    if (error.hidden) field?.removeAttribute("aria-invalid");
    else field?.setAttribute("aria-invalid", "true");
  }
  say(form);
});

// What is wrong stands beside closed fields too: a link to one opens it.
main.addEventListener("click", (event) => {
  const link = event.target.closest('#outcome a[href^="#"], ul.faults a[href^="#"]');
  const field = link && document.getElementById(link.hash.slice(1));
  if (!field) return;
  event.preventDefault();
  field.closest("details")?.setAttribute("open", "");
  field.focus();
});

function say(form) {
  const said = form.querySelector("[data-looked]");
  said.className = "hidden";
  said.textContent = form.querySelector("#outcome-status").textContent;
}
