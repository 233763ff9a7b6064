"use strict";
// Code shared by all pages: API requests, dialogs and notices, times, live events, forms
// and buttons. Reads need only the cookie; every change sends the key from this origin's
// storage.
//
// The script of an area adds handlers to sallyport.forms (by data-form) and
// sallyport.presses (by data-press), and subscribes to events with sallyport.live.
const sallyport = (() => {
  const KEY = "sallyport-key";
  const DONE = "sallyport-done"; // what is said on the page that comes next
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  async function call(method, path, body) {
    const res = await fetch(path, {
      method, credentials: "same-origin",
      headers: { "Content-Type": "application/json", "X-Sallyport-Key": localStorage.getItem(KEY) || "" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const away = res.redirected || res.status === 401; // not signed in any more
    if (res.ok && !away) return res.status === 204 ? {} : res.json();
    const p = await res.json().catch(() => ({}));
    if (away && page !== "callback") location.assign("/login?next=" + encodeURIComponent(location.pathname + location.search));
    throw Object.assign(new Error(p.detail || "The gateway returned status " + res.status + "."), { status: res.status, code: p.code, field: p.field });
  }

  // ── notices and questions ────────────────────────────────────────────────
  let noticeTimer;
  function notice(text) {
    const box = $("#notice");
    box.textContent = text;
    box.hidden = false;
    clearTimeout(noticeTimer);
    noticeTimer = setTimeout(() => { box.hidden = true; }, 6000);
  }

  // remember shows a notice on the next page.
  const remember = (text) => sessionStorage.setItem(DONE, text);

  // ask opens a confirmation dialog. With kind danger, its button is styled as destructive.
  // A browser reports that a dialog was closed some time later, when the next one may be
  // open already: that report answers nothing.
  let answer = () => {};
  function ask(title, text, yes, kind = "") {
    const box = $("#confirm");
    answer(false);
    $("#confirm-title").textContent = title;
    $("#confirm-text").textContent = text;
    $("#confirm-yes").textContent = yes;
    $("#confirm-yes").className = kind;
    box.returnValue = "no";
    box.onclose = () => { if (!box.open) answer(box.returnValue === "yes"); };
    box.showModal();
    return new Promise((done) => { answer = done; });
  }

  // confirmed asks for confirmation if a button has data-ask or data-sure, with the label
  // and style of the button.
  async function confirmed(button) {
    const { ask: asks, sure: text = asks, yes = button.textContent.trim() } = button.dataset;
    return !text || ask("Are you sure?", text, yes, button.matches(".bad, .danger") ? "danger" : "");
  }

  // ── times ────────────────────────────────────────────────────────────────
  // formatTime formats a time as the server does, in a time zone or else in that of the
  // browser.
  function formatTime(time, timeZone) {
    try {
      const parts = new Intl.DateTimeFormat("en-GB", { timeZone, weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" }).formatToParts(time);
      const { weekday, day, month, year, hour, minute, second, timeZoneName } = Object.fromEntries(parts.map((p) => [p.type, p.value]));
      return `${weekday} ${day} ${month.slice(0, 3)} ${year}, ${hour}:${minute}${second === "00" ? "" : ":" + second} ${timeZoneName}`;
    } catch { return formatTime(time, "UTC"); } // a zone that this browser does not know
  }

  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });
  function formatAge(then) {
    const s = (then - Date.now()) / 1000;
    for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
      if (Math.abs(s) >= size) return relative.format(Math.trunc(s / size), unit);
    }
    return Math.abs(s) < 5 ? "now" : relative.format(Math.trunc(s), "second");
  }

  function formatRemaining(seconds) {
    const h = Math.floor(seconds / 3600), m = Math.floor(seconds / 60) % 60, s = Math.floor(seconds % 60);
    const two = (n) => String(n).padStart(2, "0");
    return h ? `${h}:${two(m)}:${two(s)} left` : `${m}:${two(s)} left`;
  }

  // Truncated text shows how many lines are visible. The label keeps its space when it is
  // hidden, so that the layout does not shift.
  const overflow = new ResizeObserver((entries) => {
    for (const { target: box } of entries) {
      const more = box.nextElementSibling, end = box.getBoundingClientRect().bottom + 1;
      if (more?.dataset.press !== "whole") continue;
      const shown = [...box.children].filter((line) => line.getBoundingClientRect().bottom + box.scrollTop <= end);
      more.textContent = `${shown.length} of ${box.children.length} lines · Show all`;
      more.style.visibility = box.scrollHeight > box.clientHeight + 1 ? "" : "hidden";
    }
  });

  const ticks = []; // what else happens every second
  function tick() {
    for (const t of $$("time[datetime]:not([data-exact])")) {
      const then = Date.parse(t.dateTime);
      if (then) t.textContent = formatAge(then);
    }
    for (const text of $$(".prose.long")) overflow.observe(text); // again is nothing
    for (const f of ticks) f();
  }

  // ── live events ──────────────────────────────────────────────────────────
  // One stream per page. Browsers limit connections per server, so a hidden page closes its
  // stream unless keepConnected is set.
  const page = document.body.dataset.page;
  const listeners = {};
  let stream, disconnectTimer;
  const keep = () => sallyport.keepConnected;

  // live calls f with the data of each event of a kind; see /api/v1/events. After "ready"
  // and "reload", the page must reload its data; "lost" reports a broken stream.
  function live(kind, f) {
    (listeners[kind] ??= []).push(f);
    if (stream) subscribe(kind);
  }

  const dispatch = (kind, data) => { for (const f of listeners[kind] || []) Promise.resolve(f(data)).catch(() => {}); };
  const subscribed = new Set();
  function subscribe(kind) {
    if (subscribed.has(kind) || kind === "lost") return;
    subscribed.add(kind);
    stream.addEventListener(kind, (e) => dispatch(kind, JSON.parse(e.data)));
  }

  function connect() {
    clearTimeout(disconnectTimer);
    if (stream) return;
    stream = new EventSource("/api/v1/events");
    subscribed.clear();
    for (const kind of Object.keys(listeners)) subscribe(kind);
    stream.onerror = () => dispatch("lost");
  }

  function disconnect() {
    if (!stream || keep()) return;
    stream.close();
    stream = undefined;
  }

  // ── pending count ────────────────────────────────────────────────────────
  const title = document.title;
  let countTimer;
  async function updateCount() {
    countTimer = undefined;
    const waiting = await call("GET", "/inbox/count");
    const n = Object.values(waiting).reduce((sum, one) => sum + one, 0);
    document.title = (n ? `(${n}) ` : "") + title;
    for (const badge of $$("[data-count]")) { // of one kind, or of all
      const shown = waiting[badge.dataset.count] ?? n;
      badge.textContent = shown;
      badge.hidden = shown === 0;
    }
    dispatch("counted", n);
  }
  const countSoon = () => { countTimer ??= setTimeout(() => updateCount().catch(() => {}), 300); };

  // ── forms ────────────────────────────────────────────────────────────────
  const showOutput = (root, name, text) => { $(`[data-out=${name}]`, root).textContent = text; root.hidden = false; };

  // reloadPart reloads one list. The rest of the page stays, such as a secret that is shown
  // once.
  async function reloadPart(id) {
    await htmx.ajax("GET", location.pathname, { target: "#" + id, select: "#" + id, swap: "outerMorph" });
    tick();
  }

  const forms = {};
  const nothing = {}; // is done, and the page stays as it is
  const changed = (f) => f.selectedOptions ? !f.selectedOptions[0]?.defaultSelected : f.type === "checkbox" ? f.checked !== f.defaultChecked : f.value !== f.defaultValue;
  const pairs = (text) => Object.fromEntries(text.split("\n").filter((l) => l.trim()).map((l) => [l.split(":")[0].trim(), l.split(":").slice(1).join(":").trim()]));

  // parseJSON reports errors in terms of the form.
  function json(text) {
    try { return JSON.parse(text); } catch (e) { throw new Error("The settings are not valid JSON: " + e.message); }
  }

  function webPage(address) {
    const to = new URL(address);
    if (to.protocol !== "https:" && to.protocol !== "http:") throw new Error("The service returned a URL that is not a web page.");
    return to;
  }

  // at returns the URL of a section of a page, or true to reload if the page is already
  // open.
  function at(path, part) {
    if (location.pathname !== path) return path + "#" + part;
    history.replaceState(null, "", "#" + part);
    return true;
  }

  const escapeInvisible = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");

  // showError shows an error next to the field that it names, or else at the end of the
  // form, and focuses the field.
  function showError(form, e, focus = true) {
    const name = (e.field || "").split("/")[1], field = name && form.elements[name];
    const box = $(":scope > .error, .error", form);
    if (!box.home) box.before(box.home = document.createComment("")); // where it stands unless it is beside a field
    box.textContent = e.message;
    box.hidden = false;
    if (!field || !field.setAttribute || field.type === "hidden") return;
    box.id ||= "error-" + Math.random().toString(36).slice(2);
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", box.id);
    field.closest("label, .field")?.after(box);
    for (let at = field.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    if (focus) field.focus();
  }

  function clearErrors(form) {
    const box = $(".error", form);
    if (box) box.hidden = true;
    box?.home?.after(box);
    for (const f of $$("[aria-invalid]", form)) { f.removeAttribute("aria-invalid"); f.removeAttribute("aria-describedby"); }
  }

  async function submit(form, button) {
    clearErrors(form);
    button.disabled = true;
    try {
      const values = Object.fromEntries([...new FormData(form)].filter(([, v]) => v !== ""));
      const next = await forms[form.dataset.form](values, form);
      if (typeof next === "string") location.assign(next);
      else if (next === nothing) button.disabled = false;
      else if (next) location.reload();
      else form.reset();
    } catch (e) { showError(form, e); }
    button.disabled = false;
  }

  // ── buttons ──────────────────────────────────────────────────────────────
  const presses = {
    // copy copies the text of the element whose ID is in data-of.
    async copy(button) {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.of).textContent);
      notice("Copied");
    },
    // whole expands a long text and moves the focus to it.
    whole(button) {
      const text = button.previousElementSibling;
      for (const box of [text, button.closest("pre")]) box?.classList.add("whole");
      text.focus({ preventScroll: true });
      button.remove();
    },
    async signOut() {
      await fetch("/logout", { method: "POST", credentials: "same-origin" });
      localStorage.removeItem(KEY);
      location.assign("/login");
    },
  };

  async function callAPI(button) {
    if (!(await confirmed(button))) return;
    const [method, path] = button.dataset.call.split(" ");
    button.disabled = true;
    try {
      const answer = await call(method, path, button.dataset.body && JSON.parse(button.dataset.body));
      const { then } = button.dataset;
      if (answer.error && !then) notice(answer.error);
      else if (then && then !== "reload") location.assign(then);
      else location.reload();
    } catch (e) { notice(e.message); }
    button.disabled = false;
  }

  async function runAction(button) {
    button.disabled = true;
    try { await presses[button.dataset.press](button); } catch (e) { notice(e.message); }
    button.disabled = false;
  }

  document.addEventListener("click", (e) => {
    const b = e.target.closest("button");
    if (!b) return;
    if (b.dataset.call) callAPI(b);
    else if (b.dataset.press) runAction(b);
  });

  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (!form.dataset.form) return;
    e.preventDefault();
    submit(form, e.submitter || $("button", form));
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (page !== "callback" && sessionStorage.getItem(DONE)) {
      notice(sessionStorage.getItem(DONE));
      sessionStorage.removeItem(DONE);
    }
    tick();
    setInterval(tick, 1000);
    if (!("signedIn" in document.body.dataset)) return;
    live("ready", countSoon);
    live("reload", countSoon);
    live("invocation", countSoon);
    live("policy", countSoon);
    live("run", countSoon);
    live("ended", () => location.assign("/login?next=" + encodeURIComponent(location.pathname + location.search)));
    connect();
    document.addEventListener("visibilitychange", () => { if (document.hidden) disconnectTimer = setTimeout(disconnect, 5000); else connect(); });
    addEventListener("pagehide", () => { stream?.close(); stream = undefined; });
    addEventListener("pageshow", (e) => { if (e.persisted) connect(); });
  });

  return {
    $, $$, KEY, page, call, notice, remember, ask, confirmed, formatTime, formatAge, formatRemaining, tick, ticks, live, countSoon, showOutput, reloadPart, forms, presses,
    nothing, changed, pairs, json, webPage, at, escapeInvisible, showError, clearErrors, keepConnected: false,
  };
})();
