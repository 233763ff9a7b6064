"use strict";
// Live updates: the list announces new calls without moving rows, and the page of a call
// replaces only the sections that changed.
(() => {
  const { $, $$, live, tick, page } = sallyport;

  async function fetched() {
    const res = await fetch(location.href, { credentials: "same-origin" });
    if (!res.ok || res.redirected) throw new Error("the page could not be loaded");
    return new DOMParser().parseFromString(await res.text(), "text/html");
  }

  // soon debounces f and never runs it concurrently.
  function soon(f, wait) {
    let timer, busy = false, again = false;
    const go = async () => {
      timer = undefined;
      if (busy) { again = true; return; }
      busy = true;
      try { await f(); } catch { /* the next event asks again */ }
      busy = false;
      if (again) { again = false; timer ??= setTimeout(go, wait); }
    };
    return () => { timer ??= setTimeout(go, wait); };
  }

  // ── the list ─────────────────────────────────────────────────────────────
  const fresh = $("#fresh");
  let latest; // the list as it would be now

  // update refreshes rows in place and counts new ones.
  async function update() {
    const now = await fetched();
    const rows = $$("#rows > tr", now);
    for (const row of rows) {
      const old = document.getElementById(row.id);
      if (!old || old.contains(document.activeElement)) continue;
      [...old.cells].forEach((cell, i) => {
        if (i && cell.innerHTML !== row.cells[i].innerHTML) cell.replaceWith(row.cells[i].cloneNode(true));
      });
    }
    latest = now;
    const first = "first" in $("#calls").dataset;
    const n = first ? rows.filter((row) => !document.getElementById(row.id)).length : 0;
    if (!n) { fresh.replaceChildren(); return; }
    const text = `${n === rows.length && $("[rel=next]", now) ? n + " or more" : n} new · Show`;
    const button = $("button", fresh) || fresh.appendChild(Object.assign(document.createElement("button"), { type: "button" }));
    button.dataset.press = "showFresh";
    if (button.textContent !== text) button.textContent = text;
  }

  sallyport.presses.showFresh = async () => {
    for (const id of ["calls", "total"]) document.getElementById(id).replaceWith(document.importNode(latest.getElementById(id), true));
    fresh.replaceChildren();
    tick();
    $("#rows a")?.focus();
  };

  if (fresh) {
    const again = soon(update, 700);
    let known = false;
    for (const kind of ["invocation", "reload"]) live(kind, again);
    live("ready", () => { if (known) again(); known = true; });
    // Leave empty fields out of the URL.
    $("form.wishes").addEventListener("submit", (e) => {
      for (const field of e.target.elements) if (!field.value) field.disabled = true;
    });
    addEventListener("pageshow", () => { for (const field of $("form.wishes").elements) field.disabled = false; });
  }

  // ── one call ─────────────────────────────────────────────────────────────
  // Replace only the sections that changed, and restore the focus.
  async function redraw() {
    const now = await fetched(), focus = document.activeElement;
    for (const part of $$("[data-part]", now)) {
      const old = $(`[data-part="${part.dataset.part}"]`);
      if (!old || old.innerHTML === part.innerHTML) continue;
      const had = old.contains(focus);
      old.replaceWith(document.importNode(part, true));
      if (had) ($(`#${CSS.escape(focus.id || "none")}`) || $("#main")).focus({ preventScroll: true });
    }
    tick();
  }
  if (page === "activity" && $("[data-part]")) {
    const id = $("[data-id]").dataset.id, again = soon(redraw, 300);
    sallyport.redraw = again;
    live("invocation", (inv) => inv.id === id && again());
  }
})();
