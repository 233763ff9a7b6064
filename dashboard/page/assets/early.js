"use strict";
// The page can be read, clicked and typed into before its other scripts have
// run. Until then a click on a button would be lost, and the browser would send
// a form by itself, with its values, a secret among them, in the address. This
// script blocks the first paint: it holds both back, and repeats them afterwards.
(() => {
  const held = new Map(); // by element, so that an impatient second click counts once
  function hold(e) {
    const click = e.type === "click", element = click ? e.target.closest?.("button[type=button]") : e.target;
    if (!element) return;
    e.preventDefault();
    e.stopImmediatePropagation();
    const { submitter } = e;
    held.set(element, () => (click ? element.click() : element.requestSubmit(submitter)));
  }
  for (const kind of ["click", "submit"]) addEventListener(kind, hold, true);
  addEventListener("DOMContentLoaded", () => {
    for (const kind of ["click", "submit"]) removeEventListener(kind, hold, true);
    for (const repeat of held.values()) repeat();
  });
})();
