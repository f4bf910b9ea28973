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
