// Keeps the chosen files when a form with files is refused: the answer replaces the page, except for the inputs that
// hold the files. Without this script the files must be chosen again.

const main = document.getElementById("main");

main.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-keeps-files]");
  if (form === null) return;
  event.preventDefault();
  const button = form.querySelector("button:not([type])");
  const status = form.querySelector("[data-sending]");
  button.disabled = true;
  status.textContent = "The server is reading the files.";
  try {
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form), headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const words = page.getElementById("main").textContent.replace(/\s+/g, " ").trim();
    if (!answer.ok && page.querySelector("form[data-keeps-files]") === null) {
      button.disabled = false;
      status.textContent = words;
    } else await show(page, form, answer.headers.get("Content-Location"));
  } catch (error) {
    console.warn(error);
    button.disabled = false;
    status.textContent = "The connection broke, or a file was changed since it was chosen; it is not known whether the network was stored. Send it again: the same network is stored only once.";
  }
});

async function show(page, form, place) {
  const fresh = page.getElementById("main");
  for (const input of form.querySelectorAll("input[type=file]")) {
    const other = fresh.querySelector(`#${CSS.escape(input.id)}`);
    if (other === null) continue;
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
  scrollTo(0, 0);
  (main.querySelector("#refusal") ?? main).focus();
}
