"use strict";
// Calls that wait for a person: the inbox, and the page of one call.
(() => {
  const { $, $$, call, notice, ask, exact, clock, tick, live, countSoon, page } = sallyport;
  const list = $("#pending");
  if (!list) return;
  const inbox = page === "inbox";
  const PART = 25; // cards that are fetched at once; the server has the same
  const cardOf = (id) => document.getElementById("inv-" + id);
  const requests = () => $$("#requests [data-request]");

  // ── nothing moves under anybody's hands ──────────────────────────────────
  // Somebody is at work: nothing may come in above.
  const busy = () => list.contains(document.activeElement) || list.matches(":hover") || $("dialog[open]") || scrollY > 60 || waiting.size > 0;

  // After something moved that is not the person's doing, keys and clicks
  // decide nothing for a moment: they were meant for what stood there before.
  const STILL = 400;
  let moved = -STILL, settling;
  function shake() {
    moved = performance.now();
    document.body.classList.add("settling");
    clearTimeout(settling);
    settling = setTimeout(() => document.body.classList.remove("settling"), STILL);
  }

  // still does something to the page while what the person looks at stays
  // where it is: the card that has the focus, or the pointer, or is on top.
  function still(change) {
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
  const fetched = async (path) => [...(await load(path)).children].map(adopt);
  const byIDs = (ids) => fetched("/inbox/cards?" + ids.map((id) => "id=" + encodeURIComponent(id)).join("&"));

  // adopt gives a row of the list what only the script knows of it. What is
  // left is counted from what the server said: its clock is not ours.
  function adopt(row) {
    const bar = $("progress", row);
    if (bar) row.end = performance.now() + bar.value * 1000;
    if (inbox) (row.matches(".gap") ? ends : sight).observe(row);
    return row;
  }

  // near are the cards in sight, or almost. Only those are kept current by the
  // second, and only those show params that are long.
  const near = new Set();
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      near[isIntersecting ? "add" : "delete"](target);
      if (isIntersecting && $("[data-partial]", target)) refresh(target.dataset.id, true);
    }
    tick();
  }, { rootMargin: "1200px 0px" });

  // swap puts a card in the place of the one that stands there, which keeps
  // the focus and at least its height.
  function swap(card, fresh) {
    const focused = card.contains(document.activeElement), height = card.offsetHeight, partial = $("[data-partial]", card);
    still(() => {
      if (!partial) fresh.style.minHeight = height + "px";
      sight.unobserve(card);
      near.delete(card);
      card.replaceWith(fresh);
      if (focused) fresh.focus({ preventScroll: true });
    });
    tick();
  }

  // refresh brings a card up to date where it stands. It stays, decided or
  // not, until the page is loaded again; one that did not change is left alone,
  // as somebody may be writing on it.
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
        if (card && fresh && (whole || fresh.dataset.status !== card.dataset.status)) swap(card, fresh);
      } while (refreshing.get(id));
    } finally { refreshing.delete(id); }
    count();
  }

  // recheck does so for many cards.
  async function recheck(cards) {
    const ids = cards.map((c) => c.dataset.id);
    if (!inbox) return Promise.all(ids.map(async (id) => {
      const inv = await call("GET", "/api/v1/invocations/" + encodeURIComponent(id));
      if (inv.status !== cardOf(id)?.dataset.status) await refresh(id);
    }));
    for (let i = 0; i < ids.length; i += PART) {
      for (const fresh of await byIDs(ids.slice(i, i + PART))) {
        const card = cardOf(fresh.dataset.id);
        if (card && card.dataset.status !== fresh.dataset.status) swap(card, fresh);
      }
    }
  }

  sallyport.ticks.push(() => {
    for (const card of inbox ? near : $$(".card", list)) {
      const box = card.dataset.status === "pending" && $("[data-left]", card);
      if (!box) continue;
      const left = Math.max(0, (card.end - performance.now()) / 1000);
      $("progress", box).value = left;
      $("span", box).textContent = left > 0 ? clock(left) : "expired";
      box.classList.toggle("soon", left < 60);
      if (left > 0 || performance.now() < (card.asked || 0)) continue;
      card.asked = performance.now() + 3000;
      setTimeout(() => refresh(card.dataset.id).catch(() => {}), 1500);
    }
  });

  // Whether anybody waits for the answer changes without an event.
  setInterval(async () => {
    const ids = [...(inbox ? near : $$(".card", list))].filter((c) => c.dataset.status === "pending").slice(0, 2 * PART).map((c) => c.dataset.id);
    if (document.hidden || !ids.length) return;
    const said = await call("GET", "/inbox/waiters?" + ids.map((id) => "id=" + encodeURIComponent(id)).join("&")).catch(() => ({}));
    for (const [id, { state, text }] of Object.entries(said)) {
      const box = cardOf(id) && $("[data-waits]", cardOf(id));
      if (box && box.textContent !== text) { box.className = "waits is-" + state; box.textContent = text; }
    }
  }, 10000);

  // ── a list without end ───────────────────────────────────────────────────
  // Rows of the list are cards, and gaps: the last one stands for all calls
  // that were not fetched yet, others for cards that were let go of, far from
  // the window, with their height.
  const ROOM = 100; // cards; more are let go of
  const ends = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) fill(target).catch(() => {});
  }, { rootMargin: "1500px 0px" });

  // fill puts cards in the place of a gap.
  function fill(gap) {
    gap.filling ??= (async () => {
      try {
        const rows = await (gap.ids ? byIDs(gap.ids) : fetched("/inbox/more?cursor=" + encodeURIComponent(gap.dataset.next)));
        still(() => gap.replaceWith(...rows.filter((r) => !cardOf(r.dataset.id))));
        tick();
        thin();
      } catch (e) {
        gap.filling = undefined;
        throw e;
      }
    })();
    return gap.filling;
  }

  // thin lets go of what is far from the window, as long as nobody is at work
  // in it.
  function thin() {
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
    if (runs.length) still(() => runs.forEach(({ run, height }) => close(run, height)));
  }

  function close(run, height) {
    const gap = document.createElement("li");
    gap.className = "gap";
    gap.ids = run.map((c) => c.dataset.id);
    gap.style.height = height + "px";
    run[0].before(gap);
    for (const c of run) { sight.unobserve(c); near.delete(c); c.remove(); }
    ends.observe(gap);
  }
  const closed = () => $$(".gap", list).flatMap((g) => g.ids || []);

  // ── what comes in ────────────────────────────────────────────────────────
  const waiting = new Set(); // ids that came while somebody was at work in the list
  const coming = new Set();
  const landing = new Set(); // ids whose cards are being fetched; what is decided meanwhile leaves
  let soon;

  function count() {
    countSoon();
    if (!inbox) return;
    $("#empty").hidden = list.children.length + waiting.size + requests().length > 0;
    const fresh = $("#fresh");
    fresh.hidden = waiting.size === 0;
    fresh.textContent = waiting.size === 1 ? "1 new call · Show" : `${waiting.size} new calls · Show`;
  }

  function arrived(id) {
    if (cardOf(id) || waiting.has(id) || landing.has(id) || closed().includes(id)) return;
    coming.add(id);
    soon ??= setTimeout(() => land().catch(() => {}), 60);
  }

  const newestFirst = (ids) => [...ids].sort().reverse(); // ids begin with a time

  // land takes in what came within a moment, and says so.
  async function land() {
    soon = undefined;
    const ids = newestFirst(coming);
    coming.clear();
    for (const id of ids) landing.add(id);
    const all = ids.length <= PART && await byIDs(ids).catch(() => {});
    const left = new Set(ids.filter((id) => landing.delete(id)));
    const cards = all && all.filter((c) => left.has(c.dataset.id) && c.dataset.status === "pending" && !cardOf(c.dataset.id));
    if (cards && !busy()) onTop(cards);
    else for (const id of cards ? cards.map((c) => c.dataset.id) : left) waiting.add(id);
    count();
    say(cards || [], cards ? cards.length : left.size);
  }

  function onTop(cards) {
    if (!cards.length) return;
    still(() => list.prepend(...cards));
    if (list.children.length > cards.length) shake();
    tick();
    thin();
  }

  function say(cards, n) {
    if (!n) return;
    const what = cards.length === 1 ? `1 new pending call: ${cards[0].dataset.what}, requested by ${cards[0].dataset.asker}` : n === 1 ? "1 new pending call" : `${n} new pending calls`;
    $("#news").textContent = what;
    if (cards.length === 1) notifyOf("Approval required: " + cards[0].dataset.what, `Requested by ${cards[0].dataset.asker}. Risk: ${cards[0].dataset.risk}.`, cards[0].dataset.id);
    else notifyOf(what, "", "");
  }

  async function showFresh() {
    if ("older" in list.dataset) { location.assign("/"); return; }
    const ids = newestFirst(waiting);
    waiting.clear();
    $("#fresh").hidden = true;
    try {
      if (ids.length <= PART) {
        const cards = (await byIDs(ids)).filter((c) => !cardOf(c.dataset.id));
        list.prepend(...cards);
      } else list.replaceChildren(...await fetched("/inbox/more"));
    } catch (e) {
      for (const id of ids) waiting.add(id);
      notice("Could not load the new calls. " + e.message);
    }
    scrollTo(0, 0);
    shake();
    const first = $(".card", list);
    if (first) focusOn(first);
    tick();
    thin();
    count();
  }

  // renewRequests brings the requests for grants up to date, once nobody is at
  // work in them.
  let later;
  const asking = () => $("#requests").matches(":hover, :focus-within, :has(details[open])") || $("dialog[open]");
  async function renewRequests() {
    clearTimeout(later);
    const fresh = !asking() && await load("/inbox/requests");
    if (!fresh || asking()) { // somebody may have come to them meanwhile
      clearTimeout(later);
      later = setTimeout(() => renewRequests().catch(() => {}), 2000);
      return;
    }
    const known = new Set(requests().map((r) => r.dataset.request));
    still(() => $("#requests").replaceWith(...fresh.children));
    const news = requests().filter((r) => !known.has(r.dataset.request));
    if (news.length) { shake(); $("#news").textContent = `${news[0].dataset.asks || "Grant requested"}: ${news[0].dataset.what}`; }
    tick();
    count();
  }

  // resync makes up for events that were lost.
  async function resync(all) {
    renewRequests().catch(() => {});
    const { items } = await call("GET", "/api/v1/invocations?status=pending&limit=100");
    const pending = new Set(items.map((inv) => inv.id)), last = items.at(-1)?.id || "";
    const cards = $$(".card[data-status=pending], .card[data-status=approved], .card[data-status=executing]", list);
    const first = newestFirst(cards.map((c) => c.dataset.id))[0] || "";
    for (const id of pending) if (!cardOf(id) && (id > first || !first)) arrived(id);
    for (const id of waiting) if (id >= last && !pending.has(id)) waiting.delete(id);
    await recheck(cards.filter((c) => all || (c.dataset.id >= last && !pending.has(c.dataset.id))));
    count();
  }

  // ── the connection ───────────────────────────────────────────────────────
  let known = false, silence;
  function connected(yes) {
    const box = $("#live"), banner = $("#lost");
    clearTimeout(silence);
    silence = undefined;
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
    if (silence) return;
    connected(false);
    silence = setTimeout(() => {
      if (!$("#lost")) return;
      $("#lost").textContent = "Connection to the gateway lost. This page may be out of date, and you cannot approve or deny calls until the connection is restored.";
      $("#lost").hidden = false;
    }, 2500);
  });
  live("invocation", (inv) => {
    if (inbox && inv.status === "pending") return arrived(inv.id);
    coming.delete(inv.id);
    landing.delete(inv.id);
    if (waiting.delete(inv.id)) count();
    const card = cardOf(inv.id);
    if (card && card.dataset.status !== inv.status) return refresh(inv.id);
  });
  live("policy", () => inbox && renewRequests());

  // ── notifications of the desktop ─────────────────────────────────────────
  const BELL = "sallyport-notify", bell = $("#notify");
  const rings = () => "Notification" in window && Notification.permission === "granted" && localStorage.getItem(BELL) === "on";
  function paintBell() {
    if (!bell || !("Notification" in window)) return;
    bell.hidden = false;
    bell.setAttribute("aria-checked", String(rings()));
    sallyport.awake = rings(); // also while nobody looks at the page
  }
  async function turnBell() {
    const on = !rings();
    if (on && await Notification.requestPermission() !== "granted") notice("Your browser blocks notifications from this site. Allow them in the site settings of your browser.");
    localStorage.setItem(BELL, on ? "on" : "off");
    paintBell();
  }
  function notifyOf(title, body, id) {
    if (!rings() || (document.hasFocus() && !document.hidden)) return;
    const note = new Notification(title, { body, tag: id || "sallyport-many" });
    note.onclick = () => { window.focus(); note.close(); jump(id).catch(() => {}); };
  }
  async function jump(id) {
    if (waiting.size) await showFresh();
    if (!id) return;
    if (!cardOf(id)) { location.assign("/invocations/" + encodeURIComponent(id)); return; }
    shake();
    focusOn(cardOf(id));
  }

  // ── decisions ────────────────────────────────────────────────────────────
  // They bind to what was shown.
  const seen = (card) => ({ params_hash: card.dataset.paramsHash, tool_hash: card.dataset.toolHash });

  function blamed(card, text) {
    const error = $(".error", card);
    error.textContent = text;
    error.hidden = false;
  }
  const enabled = (card, yes) => { $$("button", card).forEach((b) => { b.disabled = !yes; }); };

  async function decide(card, verb, body, shown = seen(card)) {
    const id = card.dataset.id;
    $(".error", card).hidden = true;
    const focus = card.contains(document.activeElement);
    enabled(card, false);
    if (focus) card.focus({ preventScroll: true });
    try {
      await call("POST", `/api/v1/invocations/${encodeURIComponent(id)}/${verb}`, { ...shown, ...body });
      notice((verb === "approve" ? "Approved: " : "Denied: ") + card.dataset.what);
    } catch (e) {
      const now = cardOf(id);
      if (now && $(".error", now)) {
        enabled(now, true);
        blamed(now, e.status ? e.message : "The gateway did not respond, so your decision may not have been saved. Check this call again when the connection is restored.");
      }
      if (e.code === "tool_unreviewed" || (e.status !== 409 && e.status !== 410)) return;
      notice(e.message);
    }
    await refresh(id).catch(() => {});
  }

  async function approve(card, grant) {
    const shown = seen(card);
    if (card.dataset.risk === "danger") {
      const often = grant ? "It runs now and for every later call that the grant covers." : "It runs once with the params shown.";
      const sure = await ask("Approve a destructive call?", `${card.dataset.what}, requested by ${card.dataset.asker}, may delete or overwrite data permanently. ${often}`, "Approve", "danger");
      if (!sure) return;
    }
    decide(card, "approve", grant ? { mode: "grant", grant } : {}, shown);
  }

  function denying(card, yes) {
    $(".buttons", card).hidden = yes;
    $(".reason", card).hidden = !yes;
    if (yes) $(".reason input", card).focus(); else $("[data-decide=deny]", card).focus();
  }

  // terms reads what a form says of a grant; what is left empty is left out.
  function terms(form) {
    const { scope, max_calls: calls, expires_in: span, unreviewed } = Object.fromEntries(new FormData(form));
    const pin = new FormData(form).getAll("pin");
    return { scope, ...(calls && { max_calls: Number(calls) }), ...(span && { expires_in: span }), ...(pin.length && { pin }), ...(unreviewed && { unreviewed: true }) };
  }

  // sentence says what the grant of a form would let through.
  function sentence(form) {
    const { scope, max_calls: n, expires_in: span } = terms(form);
    const which = n ? `The next ${n === 1 ? "call" : n + " calls"}` : "All calls";
    const where = scope === "organization" ? "in every session of the organization" : "in this session";
    const until = span ? "until " + exact(Math.ceil((Date.now() + parseInt(span, 10) * 3600e3) / 60e3) * 60e3) : "until the grant is revoked";
    const pins = $$("[name=pin]:checked", form).map((p) => p.closest("label").innerText.trim());
    const what = pins.length ? `where ${pins.join(" and ")}` : "with any params";
    $("[data-sentence]", form).textContent = `${which} to ${form.closest(".card").dataset.what} ${where} ${what} will run without approval ${until}. This call runs now.`;
  }

  async function offer(details) {
    const card = details.closest(".card");
    if (!details.loaded) {
      details.loaded = true;
      try {
        details.append(...(await load(`/inbox/${encodeURIComponent(card.dataset.id)}/grant`)).children);
      } catch (e) {
        details.loaded = details.open = false;
        blamed(card, "Could not load the form. " + e.message);
      }
    }
    const form = $("form", details);
    if (!form) return;
    sentence(form);
    if (details.open) $("select", form).focus();
  }

  // wide says what is wide about the grant that a request's form would make.
  function wide(card, form) {
    const { scope, max_calls: calls, expires_in: span } = terms(form), said = [];
    if ("any" in card.dataset) said.push("Every non-destructive tool runs without approval, including tools added later.");
    if (!calls) said.push("The number of calls is not limited.");
    if (!span && "endless" in card.dataset) said.push("The grant never expires.");
    if (scope === "organization") said.push("It applies to all current and future sessions of the organization.");
    return said;
  }

  async function answer(form) {
    const card = form.closest("[data-request]"), verb = form.dataset.verdict;
    const said = verb === "approve" ? wide(card, form) : [];
    if (said.length && !(await ask("Create a broad grant?", said.join(" "), "Approve grant"))) return;
    $(".error", card).hidden = true;
    enabled(card, false);
    const body = verb === "approve" ? terms(form) : form.reason.value ? { reason: form.reason.value } : {};
    try {
      await call("POST", `/api/v1/grant-requests/${encodeURIComponent(card.dataset.request)}/${verb}`, body);
      notice((verb === "approve" ? "Grant approved: " : "Grant denied: ") + card.dataset.what);
      const next = card.nextElementSibling || card.previousElementSibling;
      card.remove();
      if (next?.matches(".card")) { shake(); next.focus({ preventScroll: true }); }
      count();
    } catch (e) {
      enabled(card, true);
      blamed(card, e.status ? e.message : "The gateway did not respond. Check this request again when the connection is restored.");
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
  async function step(by) {
    const all = rows(), now = document.activeElement.closest(".card");
    let at = all.indexOf(now);
    at = at < 0 ? all.findIndex((r) => r.matches(".card") && r.getBoundingClientRect().bottom > 80) : at + by;
    if (all[at]?.matches(".gap")) {
      const before = all[at - 1], after = all[at + 1];
      await fill(all[at]);
      const filled = by > 0 ? before?.nextElementSibling : after ? after.previousElementSibling : list.lastElementChild;
      if (filled?.matches(".card")) focusOn(filled);
    } else if (all[at]) focusOn(all[at]);
  }

  // The card that keys are for: it has the focus, is whole, waits, and has not
  // just moved.
  function ready() {
    const card = document.activeElement.closest(".card");
    return card && card.dataset.status === "pending" && performance.now() - moved > STILL ? card : undefined;
  }
  const usable = (b) => b && !b.disabled && b.checkVisibility();

  const keys = {
    j: () => step(1), k: () => step(-1),
    a(card) {
      if (!card) return;
      if (usable($("[data-decide=approve]", card))) approve(card);
      else if (card.dataset.request) open($("details:has([data-verdict=approve])", card));
    },
    d(card) {
      if (!card) return;
      if (usable($("[data-decide=deny]", card))) denying(card, true);
      else if (card.dataset.request) open($("details:has([data-verdict=deny])", card));
    },
    g(card) { if (card) open($("[data-grant]", card)); },
    n() { if (waiting.size) showFresh(); },
    "?"() { $("#keys")?.showModal(); },
  };
  function open(details) {
    if (!details) return;
    details.open = true;
    $("select, input", details)?.focus();
  }

  function leave(field) {
    const card = field.closest(".card"), details = field.closest("details");
    if (!card) return false;
    if (field.closest(".reason")) denying(card, false);
    else if (details) details.open = false;
    card.focus({ preventScroll: true });
    return true;
  }

  document.addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.isComposing || e.repeat || e.ctrlKey || e.metaKey || e.altKey || $("dialog[open]")) return;
    const at = e.target;
    if (e.key === "Escape" && at.closest(".card")) { if (leave(at)) e.preventDefault(); return; }
    if (at.closest("input, textarea, select, [contenteditable]")) return;
    const own = at.matches(".card"), arrow = { ArrowDown: "j", ArrowUp: "k" }[e.key];
    const key = own && arrow ? arrow : e.key;
    if (own && e.key === "Enter" && $("a.more", at)) { e.preventDefault(); location.assign($("a.more", at).href); return; }
    if (!Object.hasOwn(keys, key) || (e.shiftKey && key !== "?") || (!inbox && key !== "a" && key !== "d" && key !== "g")) return;
    e.preventDefault();
    Promise.resolve(keys[key](ready())).catch(() => {});
  });

  // ── clicks and forms ─────────────────────────────────────────────────────
  document.addEventListener("click", (e) => {
    const b = e.target.closest("button");
    if (!b) return;
    const card = b.closest(".card");
    if (b.dataset.decide === "approve") approve(card);
    else if (b.dataset.decide === "deny") denying(card, true);
    else if (b.dataset.decide === "cancel") denying(card, false);
    else if (b.dataset.decide === "back") leave(b);
    else if (b.dataset.reveal) reveal(b.dataset.reveal).catch((err) => notice(err.message));
    else if (b.id === "fresh") showFresh();
    else if (b.id === "keys-help") keys["?"]();
    else if (b.id === "notify") turnBell();
  });

  document.addEventListener("toggle", (e) => {
    if (e.target.matches?.("[data-grant]") && e.target.open) offer(e.target).catch(() => {});
  }, true);

  document.addEventListener("input", (e) => {
    const form = e.target.closest("[data-granting]");
    if (form) sentence(form);
  });

  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (!form.matches(".reason, [data-granting], [data-verdict]")) return;
    e.preventDefault();
    if (form.matches(".reason")) decide(form.closest(".card"), "deny", form.reason.value ? { reason: form.reason.value } : {});
    else if ("granting" in form.dataset) approve(form.closest(".card"), terms(form));
    else answer(form);
  });

  [...list.children].forEach(adopt);
  paintBell();
  count();
  tick();
})();
