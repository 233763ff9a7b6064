"use strict";
// Pending calls: the inbox, and the page of a single call.
(() => {
  const { $, $$, call, notice, ask, formatTime, formatRemaining, tick, live, countSoon, page } = sallyport;
  const list = $("#pending");
  if (!list) return;
  const inbox = page === "inbox";
  const PART = 25; // cards that are fetched at once; the server has the same
  const cardOf = (id) => document.getElementById("inv-" + id);
  const requests = () => $$("#requests [data-request]");

  // ── layout stability ────────────────────────────────────────────────────
  // The user is interacting with the list: do not insert cards above.
  const busy = () => list.contains(document.activeElement) || list.matches(":hover") || $("dialog[open]") || scrollY > 60 || unseen.size > 0;

  // After a layout shift that the user did not cause, ignore keys and clicks for a moment:
  // they were meant for the previous content.
  const PAUSE = 400;
  let movedAt = -PAUSE, pauseTimer;
  function pauseInput() {
    movedAt = performance.now();
    document.body.classList.add("settling");
    clearTimeout(pauseTimer);
    pauseTimer = setTimeout(() => document.body.classList.remove("settling"), PAUSE);
  }

  // keepInPlace changes the page without moving the card that the user is looking at: the
  // focused, hovered or topmost one.
  function keepInPlace(change) {
    const at = document.activeElement.closest?.(".card") || $(".card:hover") ||
      (scrollY > 60 && $$(".card").find((c) => c.getBoundingClientRect().bottom > 60));
    const id = at && at.id, top = at && at.getBoundingClientRect().top;
    change();
    const now = id && document.getElementById(id);
    if (now) scrollBy({ top: now.getBoundingClientRect().top - top, behavior: "instant" });
  }

  // ── cards ────────────────────────────────────────────────────────────────
  async function load(path) {
    const res = await fetch(path, { credentials: "same-origin", headers: { "HX-Request": "true" } });
    if (res.headers.get("HX-Redirect")) location.assign("/login?next=" + encodeURIComponent(location.pathname));
    if (!res.ok) throw new Error("The gateway returned status " + res.status + ".");
    return document.adoptNode(new DOMParser().parseFromString("<ol>" + await res.text() + "</ol>", "text/html").querySelector("ol"));
  }
  const fetched = async (path) => [...(await load(path)).children].map(initRow);
  const byIDs = (ids) => fetched("/inbox/cards?" + ids.map((id) => "id=" + encodeURIComponent(id)).join("&"));

  // initRow adds client state to a row. The time left comes from the server, because the
  // clocks may differ.
  function initRow(row) {
    const bar = $("progress", row);
    if (bar) row.end = performance.now() + bar.value * 1000;
    if (inbox) (row.matches(".gap") ? gaps : visibility).observe(row);
    return row;
  }

  // near holds the cards in or near the viewport. Only these are updated every second and
  // load large params.
  const near = new Set();
  const visibility = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      near[isIntersecting ? "add" : "delete"](target);
      if (isIntersecting && $("[data-partial]", target)) refresh(target.dataset.id, true);
    }
    tick();
  }, { rootMargin: "1200px 0px" });

  // replaceCard replaces a card, keeping the focus and at least the height.
  function replaceCard(card, fresh) {
    const focused = card.contains(document.activeElement), height = card.offsetHeight, partial = $("[data-partial]", card);
    keepInPlace(() => {
      if (!partial) fresh.style.minHeight = height + "px";
      visibility.unobserve(card);
      near.delete(card);
      card.replaceWith(fresh);
      if (focused) fresh.focus({ preventScroll: true });
    });
    tick();
  }

  // refresh updates a card in place. Decided cards stay until the page is reloaded;
  // unchanged cards are not replaced, because the user may be typing.
  const refreshing = new Map(); // to whether it changed again meanwhile
  async function refresh(id, whole) {
    if (!cardOf(id)) return;
    sallyport.redraw?.(); // what stands around it, on its own page
    const going = refreshing.has(id);
    refreshing.set(id, going);
    if (going) return;
    try {
      do {
        refreshing.set(id, false);
        const [fresh] = await fetched("/inbox/" + encodeURIComponent(id)), card = cardOf(id);
        if (card && fresh && (whole || fresh.dataset.status !== card.dataset.status)) replaceCard(card, fresh);
      } while (refreshing.get(id));
    } finally { refreshing.delete(id); }
    count();
  }

  // recheck refreshes several cards.
  async function recheck(cards) {
    const ids = cards.map((c) => c.dataset.id);
    if (!inbox) return Promise.all(ids.map(async (id) => {
      const inv = await call("GET", "/api/v1/invocations/" + encodeURIComponent(id));
      if (inv.status !== cardOf(id)?.dataset.status) await refresh(id);
    }));
    for (let i = 0; i < ids.length; i += PART) {
      for (const fresh of await byIDs(ids.slice(i, i + PART))) {
        const card = cardOf(fresh.dataset.id);
        if (card && card.dataset.status !== fresh.dataset.status) replaceCard(card, fresh);
      }
    }
  }

  sallyport.ticks.push(() => {
    for (const card of inbox ? near : $$(".card", list)) {
      const box = card.dataset.status === "pending" && $("[data-left]", card);
      if (!box) continue;
      const left = Math.max(0, (card.end - performance.now()) / 1000);
      $("progress", box).value = left;
      $("span", box).textContent = left > 0 ? formatRemaining(left) : "expired";
      box.classList.toggle("soon", left < 60);
      if (left > 0 || performance.now() < (card.asked || 0)) continue;
      card.asked = performance.now() + 3000;
      setTimeout(() => refresh(card.dataset.id).catch(() => {}), 1500);
    }
  });

  // There is no event for a caller that stops waiting, so poll.
  setInterval(async () => {
    const ids = [...(inbox ? near : $$(".card", list))].filter((c) => c.dataset.status === "pending").slice(0, 2 * PART).map((c) => c.dataset.id);
    if (document.hidden || !ids.length) return;
    const said = await call("GET", "/inbox/waiters?" + ids.map((id) => "id=" + encodeURIComponent(id)).join("&")).catch(() => ({}));
    for (const [id, { state, text }] of Object.entries(said)) {
      const box = cardOf(id) && $("[data-waits]", cardOf(id));
      if (box && box.textContent !== text) { box.className = "waits is-" + state; box.textContent = text; }
    }
  }, 10000);

  // ── infinite scrolling ──────────────────────────────────────────────────
  // Rows are cards or gaps. The last gap stands for the calls not loaded yet; other gaps
  // replace unloaded cards far from the viewport and keep their height.
  const ROOM = 100; // cards; more are let go of
  const gaps = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) loadGap(target).catch(() => {});
  }, { rootMargin: "1500px 0px" });

  // loadGap replaces a gap with its cards.
  function loadGap(gap) {
    gap.filling ??= (async () => {
      try {
        const rows = await (gap.ids ? byIDs(gap.ids) : fetched("/inbox/more?cursor=" + encodeURIComponent(gap.dataset.next)));
        keepInPlace(() => gap.replaceWith(...rows.filter((r) => !cardOf(r.dataset.id))));
        tick();
        unloadDistant();
      } catch (e) {
        gap.filling = undefined;
        throw e;
      }
    })();
    return gap.filling;
  }

  // unloadDistant replaces cards far from the viewport with gaps, except those in use.
  function unloadDistant() {
    const rows = [...list.children];
    let there = rows.filter((r) => r.matches(".card")).length;
    if (there <= ROOM) return;
    const far = (r) => {
      const { top, bottom } = r.getBoundingClientRect();
      return r.matches(".card") && (bottom < -4 * innerHeight - 1500 || top > 5 * innerHeight + 1500) &&
        !r.contains(document.activeElement) && !$("details[open], .reason:not([hidden])", r);
    };
    const runs = []; // all are measured before any goes
    for (let i = 0; i < rows.length && there > ROOM; i++) {
      const run = [];
      while (run.length < PART && rows[i] && far(rows[i])) run.push(rows[i++]);
      if (!run.length) continue;
      there -= run.length;
      runs.push({ run, height: run.at(-1).getBoundingClientRect().bottom - run[0].getBoundingClientRect().top });
    }
    if (runs.length) keepInPlace(() => runs.forEach(({ run, height }) => collapse(run, height)));
  }

  function collapse(run, height) {
    const gap = document.createElement("li");
    gap.className = "gap";
    gap.ids = run.map((c) => c.dataset.id);
    gap.style.height = height + "px";
    run[0].before(gap);
    for (const c of run) { visibility.unobserve(c); near.delete(c); c.remove(); }
    gaps.observe(gap);
  }
  const closed = () => $$(".gap", list).flatMap((g) => g.ids || []);

  // ── new calls ───────────────────────────────────────────────────────────
  const unseen = new Set(); // ids that came while somebody was at work in the list
  const arrivals = new Set();
  const loading = new Set(); // ids whose cards are being fetched; what is decided meanwhile leaves
  let soon;

  function count() {
    countSoon();
    if (!inbox) return;
    $("#empty").hidden = list.children.length + unseen.size + requests().length > 0;
    const fresh = $("#fresh");
    fresh.hidden = unseen.size === 0;
    fresh.textContent = unseen.size === 1 ? "1 new call · Show" : `${unseen.size} new calls · Show`;
  }

  function queueArrival(id) {
    if (list.hidden) return count(); // the page shows another kind
    if (cardOf(id) || unseen.has(id) || loading.has(id) || closed().includes(id)) return;
    arrivals.add(id);
    soon ??= setTimeout(() => loadArrivals().catch(() => {}), 60);
  }

  const newestFirst = (ids) => [...ids].sort().reverse(); // ids begin with a time

  // loadArrivals loads the calls that arrived since the last batch and announces them.
  async function loadArrivals() {
    soon = undefined;
    const ids = newestFirst(arrivals);
    arrivals.clear();
    for (const id of ids) loading.add(id);
    const all = ids.length <= PART && await byIDs(ids).catch(() => {});
    const left = new Set(ids.filter((id) => loading.delete(id)));
    const cards = all && all.filter((c) => left.has(c.dataset.id) && c.dataset.status === "pending" && !cardOf(c.dataset.id));
    if (cards && !busy()) addToTop(cards);
    else for (const id of cards ? cards.map((c) => c.dataset.id) : left) unseen.add(id);
    count();
    announce(cards || [], cards ? cards.length : left.size);
  }

  function addToTop(cards) {
    if (!cards.length) return;
    keepInPlace(() => list.prepend(...cards));
    if (list.children.length > cards.length) pauseInput();
    tick();
    unloadDistant();
  }

  function announce(cards, n) {
    if (!n) return;
    const what = cards.length === 1 ? `1 new pending call: ${cards[0].dataset.what}, requested by ${cards[0].dataset.asker}` : n === 1 ? "1 new pending call" : `${n} new pending calls`;
    $("#news").textContent = what;
    if (cards.length === 1) showNotification("Approval required: " + cards[0].dataset.what, `Requested by ${cards[0].dataset.asker}. Risk: ${cards[0].dataset.risk}.`, cards[0].dataset.id);
    else showNotification(what, "", "");
  }

  async function showFresh() {
    if ("older" in list.dataset) { location.assign(location.pathname + location.search.replace(/&?cursor=[^&]*/, "")); return; }
    const ids = newestFirst(unseen);
    unseen.clear();
    $("#fresh").hidden = true;
    try {
      if (ids.length <= PART) {
        const cards = (await byIDs(ids)).filter((c) => !cardOf(c.dataset.id));
        list.prepend(...cards);
      } else list.replaceChildren(...await fetched("/inbox/more"));
    } catch (e) {
      for (const id of ids) unseen.add(id);
      notice("Could not load the new calls. " + e.message);
    }
    scrollTo(0, 0);
    pauseInput();
    const first = $(".card", list);
    if (first) focusOn(first);
    tick();
    unloadDistant();
    count();
  }

  // renewRequests reloads the requests once the user is not interacting with them.
  let later;
  const requestsInUse = () => $("#requests").matches(":hover, :focus-within, :has(details[open])") || $("dialog[open]");
  async function renewRequests() {
    clearTimeout(later);
    const fresh = !requestsInUse() && await load("/inbox/requests" + location.search);
    if (!fresh || requestsInUse()) { // the user may have started to interact meanwhile
      clearTimeout(later);
      later = setTimeout(() => renewRequests().catch(() => {}), 2000);
      return;
    }
    const known = new Set(requests().map((r) => r.dataset.request));
    keepInPlace(() => $("#requests").replaceWith(...fresh.children));
    const news = requests().filter((r) => !known.has(r.dataset.request));
    if (news.length) {
      const text = `${news[0].dataset.asks || "Grant requested"}: ${news[0].dataset.what}`;
      pauseInput();
      $("#news").textContent = text;
      showNotification(text, "", "");
    }
    tick();
    count();
  }

  // resync reloads state after missed events.
  async function resync(all) {
    renewRequests().catch(() => {});
    const { items } = await call("GET", "/api/v1/invocations?status=pending&limit=100");
    const pending = new Set(items.map((inv) => inv.id)), last = items.at(-1)?.id || "";
    const cards = $$(".card[data-status=pending], .card[data-status=approved], .card[data-status=executing]", list);
    const first = newestFirst(cards.map((c) => c.dataset.id))[0] || "";
    for (const id of pending) if (!cardOf(id) && (id > first || !first)) queueArrival(id);
    for (const id of unseen) if (id >= last && !pending.has(id)) unseen.delete(id);
    await recheck(cards.filter((c) => all || (c.dataset.id >= last && !pending.has(c.dataset.id))));
    count();
  }

  // ── the connection ───────────────────────────────────────────────────────
  let known = false, lostTimer;
  function connected(yes) {
    const box = $("#live"), banner = $("#lost");
    clearTimeout(lostTimer);
    lostTimer = undefined;
    if (box) { box.dataset.state = yes ? "on" : "off"; box.textContent = yes ? "live" : known ? "reconnecting" : "connecting"; }
    if (banner && yes) banner.hidden = true;
  }
  live("ready", () => {
    connected(true);
    const again = known;
    known = true;
    return inbox ? resync(again) : again && recheck($$(".card[data-id]"));
  });
  live("reload", () => (inbox ? resync(true) : recheck($$(".card[data-id]"))));
  live("lost", () => {
    if (lostTimer) return;
    connected(false);
    lostTimer = setTimeout(() => {
      if (!$("#lost")) return;
      $("#lost").textContent = "Connection to the gateway lost. This page may be out of date, and you cannot approve or deny calls until the connection is restored.";
      $("#lost").hidden = false;
    }, 2500);
  });
  live("invocation", (inv) => {
    if (inbox && inv.status === "pending") return queueArrival(inv.id);
    arrivals.delete(inv.id);
    loading.delete(inv.id);
    if (unseen.delete(inv.id)) count();
    const card = cardOf(inv.id);
    if (card && card.dataset.status !== inv.status) return refresh(inv.id);
  });
  live("policy", () => inbox && renewRequests());
  live("run", (run) => {
    const shown = requests().some((r) => r.dataset.run === run.id);
    if (inbox && (shown || run.status === "failed" || run.status === "needs_human")) return renewRequests();
  });

  // ── notifications of the desktop ─────────────────────────────────────────
  const NOTIFY = "sallyport-notify", notifyButton = $("#notify");
  const notificationsOn = () => "Notification" in window && Notification.permission === "granted" && localStorage.getItem(NOTIFY) === "on";
  function renderNotifyButton() {
    if (!notifyButton || !("Notification" in window)) return;
    notifyButton.hidden = false;
    notifyButton.setAttribute("aria-checked", String(notificationsOn()));
    sallyport.keepConnected = notificationsOn(); // also while the page is hidden
  }
  async function toggleNotifications() {
    const on = !notificationsOn();
    if (on && await Notification.requestPermission() !== "granted") notice("Your browser blocks notifications from this site. Allow them in the site settings of your browser.");
    localStorage.setItem(NOTIFY, on ? "on" : "off");
    renderNotifyButton();
  }
  function showNotification(title, body, id) {
    if (!notificationsOn() || (document.hasFocus() && !document.hidden)) return;
    const note = new Notification(title, { body, tag: id || "sallyport-many" });
    note.onclick = () => { window.focus(); note.close(); openCall(id).catch(() => {}); };
  }
  async function openCall(id) {
    if (unseen.size) await showFresh();
    if (!id) return;
    if (!cardOf(id)) { location.assign("/invocations/" + encodeURIComponent(id)); return; }
    pauseInput();
    focusOn(cardOf(id));
  }

  // ── decisions ────────────────────────────────────────────────────────────
  // A decision carries the hashes of what was shown.
  const shownHashes = (card) => ({ params_hash: card.dataset.paramsHash, tool_hash: card.dataset.toolHash });

  function showCardError(card, text) {
    const error = $(".error", card);
    error.textContent = text;
    error.hidden = false;
  }
  const setEnabled = (card, yes) => { $$("button", card).forEach((b) => { b.disabled = !yes; }); };

  async function decide(card, verb, body, shown = shownHashes(card)) {
    const id = card.dataset.id;
    $(".error", card).hidden = true;
    const focus = card.contains(document.activeElement);
    setEnabled(card, false);
    if (focus) card.focus({ preventScroll: true });
    try {
      await call("POST", `/api/v1/invocations/${encodeURIComponent(id)}/${verb}`, { ...shown, ...body });
      notice((verb === "approve" ? "Approved: " : "Denied: ") + card.dataset.what);
    } catch (e) {
      const now = cardOf(id);
      if (now && $(".error", now)) {
        setEnabled(now, true);
        showCardError(now, e.status ? e.message : "The gateway did not respond, so your decision may not have been saved. Check this call again when the connection is restored.");
      }
      if (e.code === "tool_unreviewed" || (e.status !== 409 && e.status !== 410)) return;
      notice(e.message);
    }
    await refresh(id).catch(() => {});
  }

  async function approve(card, grant) {
    const shown = shownHashes(card);
    if (card.dataset.risk === "danger") {
      const often = grant ? "It runs now and for every later call that the grant covers." : "It runs once with the params shown.";
      const sure = await ask("Approve a destructive call?", `${card.dataset.what}, requested by ${card.dataset.asker}, may delete or overwrite data permanently. ${often}`, "Approve", "danger");
      if (!sure) return;
    }
    decide(card, "approve", grant ? { mode: "grant", grant } : {}, shown);
  }

  function toggleReason(card, yes) {
    $(".buttons", card).hidden = yes;
    $(".reason", card).hidden = !yes;
    if (yes) $(".reason input", card).focus(); else $("[data-decide=deny]", card).focus();
  }

  // grantTerms reads the terms of a grant from a form, without empty fields.
  function grantTerms(form) {
    const { scope, max_calls: calls, expires_in: span, unreviewed } = Object.fromEntries(new FormData(form));
    const pin = new FormData(form).getAll("pin");
    return { scope, ...(calls && { max_calls: Number(calls) }), ...(span && { expires_in: span }), ...(pin.length && { pin }), ...(unreviewed && { unreviewed: true }) };
  }

  // describeGrant shows which calls the grant would allow.
  function describeGrant(form) {
    const { scope, max_calls: n, expires_in: span } = grantTerms(form);
    const which = n ? `The next ${n === 1 ? "call" : n + " calls"}` : "All calls";
    const where = scope === "organization" ? "in every session of the organization" : "in this session";
    const until = span ? "until " + formatTime(Math.ceil((Date.now() + parseInt(span, 10) * 3600e3) / 60e3) * 60e3) : "until the grant is revoked";
    const pins = $$("[name=pin]:checked", form).map((p) => p.closest("label").innerText.trim());
    const what = pins.length ? `where ${pins.join(" and ")}` : "with any params";
    $("[data-sentence]", form).textContent = `${which} to ${form.closest(".card").dataset.what} ${where} ${what} will run without approval ${until}. This call runs now.`;
  }

  async function openGrantForm(details) {
    const card = details.closest(".card");
    if (!details.loaded) {
      details.loaded = true;
      try {
        details.append(...(await load(`/inbox/${encodeURIComponent(card.dataset.id)}/grant`)).children);
      } catch (e) {
        details.loaded = details.open = false;
        showCardError(card, "Could not load the form. " + e.message);
      }
    }
    const form = $("form", details);
    if (!form) return;
    describeGrant(form);
    if (details.open) $("select", form).focus();
  }

  // grantWarnings lists what is broad about a grant.
  function grantWarnings(card, form) {
    const { scope, max_calls: calls, expires_in: span } = grantTerms(form), said = [];
    if ("any" in card.dataset) said.push("Every non-destructive tool runs without approval, including tools added later.");
    if (!calls) said.push("The number of calls is not limited.");
    if (!span && "endless" in card.dataset) said.push("The grant never expires.");
    if (scope === "organization") said.push("It applies to all current and future sessions of the organization.");
    return said;
  }

  async function submitRequest(form) {
    const card = form.closest("[data-request]"), verb = form.dataset.verdict;
    const said = verb === "approve" ? grantWarnings(card, form) : [];
    if (said.length && !(await ask("Create a broad grant?", said.join(" "), "Approve grant"))) return;
    $(".error", card).hidden = true;
    setEnabled(card, false);
    const body = verb === "approve" ? grantTerms(form) : form.reason.value ? { reason: form.reason.value } : {};
    try {
      await call("POST", `/api/v1/grant-requests/${encodeURIComponent(card.dataset.request)}/${verb}`, body);
      notice((verb === "approve" ? "Grant approved: " : "Grant denied: ") + card.dataset.what);
      const next = card.nextElementSibling || card.previousElementSibling;
      card.remove();
      if (next?.matches(".card")) { pauseInput(); next.focus({ preventScroll: true }); }
      count();
    } catch (e) {
      setEnabled(card, true);
      showCardError(card, e.status ? e.message : "The gateway did not respond. Check this request again when the connection is restored.");
      if (e.status === 409 || e.status === 410) { $$("details", card).forEach((d) => d.remove()); notice(e.message); }
    }
  }

  async function reveal(id) {
    const lines = await load(`/inbox/${encodeURIComponent(id)}/params`);
    const box = document.getElementById("params-" + id);
    box.replaceChildren(...lines.childNodes);
    $(`[data-reveal="${CSS.escape(id)}"]`)?.remove();
    box.focus({ preventScroll: true });
  }

  // ── keys ─────────────────────────────────────────────────────────────────
  function focusOn(card) {
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: card.offsetHeight > innerHeight - 140 ? "start" : "nearest", behavior: "instant" });
  }

  const rows = () => [...requests(), ...list.children];
  async function moveFocus(by) {
    const all = rows(), now = document.activeElement.closest(".card");
    let at = all.indexOf(now);
    at = at < 0 ? all.findIndex((r) => r.matches(".card") && r.getBoundingClientRect().bottom > 80) : at + by;
    if (all[at]?.matches(".gap")) {
      const before = all[at - 1], after = all[at + 1];
      await loadGap(all[at]);
      const filled = by > 0 ? before?.nextElementSibling : after ? after.previousElementSibling : list.lastElementChild;
      if (filled?.matches(".card")) focusOn(filled);
    } else if (all[at]) focusOn(all[at]);
  }

  // focusedCard returns the card that keys apply to: focused, pending and not just moved.
  function focusedCard() {
    const card = document.activeElement.closest(".card");
    return card && card.dataset.status === "pending" && performance.now() - movedAt > PAUSE ? card : undefined;
  }
  const usable = (b) => b && !b.disabled && b.checkVisibility();

  const keys = {
    j: () => moveFocus(1), k: () => moveFocus(-1),
    a(card) {
      if (!card) return;
      if (usable($("[data-decide=approve]", card))) approve(card);
      else if (card.dataset.request) openDetails($("details:has([data-verdict=approve])", card));
    },
    d(card) {
      if (!card) return;
      if (usable($("[data-decide=deny]", card))) toggleReason(card, true);
      else if (card.dataset.request) openDetails($("details:has([data-verdict=deny])", card));
    },
    g(card) { if (card) openDetails($("[data-grant]", card)); },
    n() { if (unseen.size) showFresh(); },
    "?"() { $("#keys")?.showModal(); },
  };
  function openDetails(details) {
    if (!details) return;
    details.open = true;
    $("select, input", details)?.focus();
  }

  function closeForm(field) {
    const card = field.closest(".card"), details = field.closest("details");
    if (!card) return false;
    if (field.closest(".reason")) toggleReason(card, false);
    else if (details) details.open = false;
    card.focus({ preventScroll: true });
    return true;
  }

  document.addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.isComposing || e.repeat || e.ctrlKey || e.metaKey || e.altKey || $("dialog[open]")) return;
    const at = e.target;
    if (e.key === "Escape" && at.closest(".card")) { if (closeForm(at)) e.preventDefault(); return; }
    if (at.closest("input, textarea, select, [contenteditable]")) return;
    const own = at.matches(".card"), arrow = { ArrowDown: "j", ArrowUp: "k" }[e.key];
    const key = own && arrow ? arrow : e.key;
    if (own && e.key === "Enter" && $("a.more", at)) { e.preventDefault(); location.assign($("a.more", at).href); return; }
    if (!Object.hasOwn(keys, key) || (e.shiftKey && key !== "?") || (!inbox && key !== "a" && key !== "d" && key !== "g")) return;
    e.preventDefault();
    Promise.resolve(keys[key](focusedCard())).catch(() => {});
  });

  // ── clicks and forms ─────────────────────────────────────────────────────
  document.addEventListener("click", (e) => {
    const b = e.target.closest("button");
    if (!b) return;
    const card = b.closest(".card");
    if (b.dataset.decide === "approve") approve(card);
    else if (b.dataset.decide === "deny") toggleReason(card, true);
    else if (b.dataset.decide === "cancel") toggleReason(card, false);
    else if (b.dataset.decide === "back") closeForm(b);
    else if (b.dataset.reveal) reveal(b.dataset.reveal).catch((err) => notice(err.message));
    else if (b.id === "fresh") showFresh();
    else if (b.id === "keys-help") keys["?"]();
    else if (b.id === "notify") toggleNotifications();
  });

  document.addEventListener("toggle", (e) => {
    if (e.target.matches?.("[data-grant]") && e.target.open) openGrantForm(e.target).catch(() => {});
  }, true);

  document.addEventListener("input", (e) => {
    const form = e.target.closest("[data-granting]");
    if (form) describeGrant(form);
  });

  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (!form.matches(".reason, [data-granting], [data-verdict]")) return;
    e.preventDefault();
    if (form.matches(".reason")) decide(form.closest(".card"), "deny", form.reason.value ? { reason: form.reason.value } : {});
    else if ("granting" in form.dataset) approve(form.closest(".card"), grantTerms(form));
    else submitRequest(form);
  });

  [...list.children].forEach(initRow);
  renderNotifyButton();
  count();
  tick();
})();
