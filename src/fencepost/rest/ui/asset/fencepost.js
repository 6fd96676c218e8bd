// What htmx does not do by itself. Pages work without it.
(() => {
  "use strict";

  // A page that nobody sees asks for nothing.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const source = event.detail.requestConfig.triggeringEvent;
    if (document.hidden && !source) event.preventDefault();
  });

  // A region that was scrolled or unfolded stays so when it is refreshed.
  let kept = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    kept = [...part.querySelectorAll("details")].map((one) => one.open);
  });
  document.addEventListener("htmx:load", (event) => {
    const found = [...event.detail.elt.querySelectorAll("details")];
    if (found.length === kept.length) found.forEach((one, n) => { one.open = kept[n]; });
  });

  // A field says that it is wrong as soon as its error is there.
  document.addEventListener("htmx:oobAfterSwap", (event) => {
    const error = event.detail.target;
    const field = document.querySelector(`[aria-describedby~="${CSS.escape(error.id)}"]`);
    if (!field) return;
    if (document.getElementById(error.id).textContent) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  });
})();
