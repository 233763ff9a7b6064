"use strict";
// The page's own script. Reading needs the cookie alone; every change carries
// the key that lives in this origin's storage.
(() => {
  const KEY = "sallyport-key";
  const DONE = "sallyport-done"; // the same, of what went well
  const FAILED = "sallyport-sign-in-failed"; // what is said on the page that comes next
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  async function call(method, path, body) {
    const res = await fetch(path, {
      method, credentials: "same-origin",
      headers: { "Content-Type": "application/json", "X-Sallyport-Key": localStorage.getItem(KEY) || "" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (res.ok) return res.status === 204 ? {} : res.json();
    const p = await res.json().catch(() => ({}));
    if (res.status === 401 && document.body.dataset.page !== "callback") location.assign("/login?next=" + encodeURIComponent(location.pathname + location.search));
    throw Object.assign(new Error(p.detail || "The gateway answered " + res.status + "."), { status: res.status, code: p.code, field: p.field });
  }

  // ── notices and questions ────────────────────────────────────────────────
  let hush;
  function notice(text) {
    const box = $("#notice");
    box.textContent = text;
    box.hidden = false;
    clearTimeout(hush);
    hush = setTimeout(() => { box.hidden = true; }, 6000);
  }

  // remember has the page that comes next say something.
  const remember = (text) => sessionStorage.setItem(DONE, text);

  // ask paints its button as a deletion's, unless the kind is another.
  function ask(title, text, yes, kind = "danger") {
    const box = $("#confirm");
    $("#confirm-title").textContent = title;
    $("#confirm-text").textContent = text;
    $("#confirm-yes").textContent = yes;
    $("#confirm-yes").className = kind;
    box.returnValue = "no";
    box.showModal();
    return new Promise((done) => box.addEventListener("close", () => done(box.returnValue === "yes"), { once: true }));
  }

  // ── times ────────────────────────────────────────────────────────────────
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });
  function ago(then) {
    const s = (then - Date.now()) / 1000;
    for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
      if (Math.abs(s) >= size) return relative.format(Math.trunc(s / size), unit);
    }
    return Math.abs(s) < 5 ? "now" : relative.format(Math.trunc(s), "second");
  }

  function clock(seconds) {
    const h = Math.floor(seconds / 3600), m = Math.floor(seconds / 60) % 60, s = Math.floor(seconds % 60);
    const two = (n) => String(n).padStart(2, "0");
    return h ? `${h}:${two(m)}:${two(s)} left` : `${m}:${two(s)} left`;
  }

  function tick() {
    for (const t of $$("time[datetime]:not([data-exact])")) {
      const then = Date.parse(t.dateTime);
      if (then) t.textContent = ago(then);
    }
    for (const card of $$(".card[data-status=pending]")) {
      const box = $("[data-left]", card);
      if (!box) continue;
      // Counted from what the server said was left: its clock is not ours.
      const bar = $("progress", box);
      box.end ??= performance.now() + bar.value * 1000;
      const left = Math.max(0, (box.end - performance.now()) / 1000);
      bar.value = left;
      $("span", box).textContent = left > 0 ? clock(left) : "time is up";
      box.classList.toggle("soon", left < 60);
      if (left <= 0 && !card.dataset.over) {
        card.dataset.over = "1";
        setTimeout(() => refresh(card.dataset.id), 1500);
      }
    }
  }

  // ── the inbox ────────────────────────────────────────────────────────────
  const list = $("#pending");
  const inbox = document.body.dataset.page === "inbox";
  const waiting = []; // ids that came while somebody was at work in the list

  const requests = () => $$("#requests [data-request]");
  const cardOf = (id) => document.getElementById("inv-" + id);
  // Somebody is at work: nothing may move under his hands.
  const busy = () => list.contains(document.activeElement) || list.matches(":hover") || $("#confirm").open;

  function count() {
    const n = $$(".card[data-status=pending]", list).length + waiting.length + requests().length;
    document.title = (n ? `(${n}) ` : "") + "Inbox · Sallyport";
    const badge = $("#count");
    badge.textContent = n;
    badge.hidden = n === 0;
    $("#empty").hidden = $$(".card", list).length + waiting.length + requests().length > 0;
    const fresh = $("#fresh");
    fresh.hidden = waiting.length === 0;
    fresh.textContent = waiting.length === 1 ? "1 new call · show" : `${waiting.length} new calls · show`;
  }

  // hold keeps what somebody works on where it is while a card changes: the
  // card keeps its height, and what it grows by is scrolled away.
  function hold(card) {
    const at = document.activeElement.closest(".card") || $(".card:hover", list);
    const height = card.offsetHeight, top = at && at.getBoundingClientRect().top;
    return () => {
      cardOf(card.dataset.id).style.minHeight = height + "px";
      if (at && at.isConnected) scrollBy(0, at.getBoundingClientRect().top - top);
    };
  }

  // refresh brings a card up to date where it stands. It stays, decided or
  // not, until the page is loaded again.
  async function refresh(id) {
    const card = cardOf(id);
    if (!card) return;
    if (!inbox) { location.reload(); return; }
    const focused = card.contains(document.activeElement);
    const still = hold(card);
    await htmx.ajax("GET", "/inbox/" + encodeURIComponent(id), { target: "#inv-" + CSS.escape(id), swap: "outerMorph" });
    if (focused && !cardOf(id).contains(document.activeElement)) cardOf(id).focus({ preventScroll: true });
    still();
    tick();
    count();
  }

  async function show(id) {
    if (cardOf(id)) return refresh(id);
    await htmx.ajax("GET", "/inbox/" + encodeURIComponent(id), { target: "#pending", swap: "afterbegin" });
    tick();
    count();
  }

  function arrived(id) {
    if (cardOf(id)) { refresh(id); return; }
    if (waiting.includes(id)) return;
    if (busy()) { waiting.push(id); count(); } else show(id);
  }

  async function showFresh() {
    $("#fresh").hidden = true;
    for (const id of waiting.splice(0)) await show(id);
    const first = $(".card", list);
    if (first) { first.scrollIntoView({ block: "nearest" }); first.focus({ preventScroll: true }); }
  }

  // renewRequests brings the requests for grants up to date, once nobody is at
  // work in them.
  let later;
  async function renewRequests() {
    clearTimeout(later);
    const now = $("#requests");
    if (now.contains(document.activeElement) || now.matches(":hover") || $("details[open]", now)) {
      later = setTimeout(() => renewRequests().catch(() => {}), 2000);
      return;
    }
    await htmx.ajax("GET", "/inbox/requests", { target: "#requests", swap: "outerHTML" });
    tick();
    count();
  }

  // resync makes up for events that were lost.
  async function resync() {
    renewRequests().catch(() => {});
    const page = await call("GET", "/api/v1/invocations?status=pending&limit=50");
    const pending = page.items.map((inv) => inv.id);
    for (const card of $$(".card[data-status=pending]", list)) {
      if (!pending.includes(card.dataset.id)) refresh(card.dataset.id);
    }
    for (const card of $$(".card[data-status=approved], .card[data-status=executing]", list)) await recheck(card);
    for (const id of pending.reverse()) if (!cardOf(id)) arrived(id);
    count();
  }

  // recheck brings a card up to date when its call changed, and only then:
  // somebody may be writing on it.
  async function recheck(card) {
    const inv = await call("GET", "/api/v1/invocations/" + encodeURIComponent(card.dataset.id));
    if (inv.status !== card.dataset.status) await refresh(card.dataset.id);
  }

  function listen() {
    const events = new EventSource("/api/v1/events");
    const live = $("#live");
    const state = (s, text) => { if (live) { live.dataset.state = s; live.textContent = text; } };
    let known = !inbox;
    events.addEventListener("ready", () => { state("on", "live"); if (inbox) resync().catch(() => {}); known = true; });
    events.addEventListener("reload", () => (inbox ? resync() : Promise.all($$(".card[data-id]").map(recheck))).catch(() => {}));
    events.addEventListener("invocation", (e) => {
      const inv = JSON.parse(e.data);
      const at = waiting.indexOf(inv.id);
      if (inbox && inv.status === "pending") arrived(inv.id);
      else if (at >= 0) { waiting.splice(at, 1); count(); }
      else if (cardOf(inv.id) && cardOf(inv.id).dataset.status !== inv.status) refresh(inv.id);
    });
    events.addEventListener("policy", () => { if (inbox) renewRequests().catch(() => {}); });
    events.onerror = () => state("off", known ? "reconnecting" : "connecting");
    addEventListener("pagehide", () => events.close());
  }

  // ── decisions ────────────────────────────────────────────────────────────
  const seen = (card) => ({ params_hash: card.dataset.paramsHash, tool_hash: card.dataset.toolHash });

  async function decide(card, verb, body) {
    const error = $(".error", card);
    error.hidden = true;
    $$("button", card).forEach((b) => { b.disabled = true; });
    try {
      await call("POST", `/api/v1/invocations/${encodeURIComponent(card.dataset.id)}/${verb}`, { ...seen(card), ...body });
      notice((verb === "approve" ? "Approved: " : "Denied: ") + card.dataset.what);
    } catch (e) {
      $$("button", card).forEach((b) => { b.disabled = false; });
      error.textContent = e.message;
      error.hidden = false;
      if (e.code === "tool_unreviewed" || (e.status !== 409 && e.status !== 410)) return;
      notice(e.message);
    }
    await refresh(card.dataset.id);
  }

  async function approve(card, grant) {
    if (card.dataset.risk === "danger") {
      const often = grant ? "It runs now, and again whenever the grant covers it." : "It runs once, with the params shown.";
      const sure = await ask("Run a dangerous action?", card.dataset.what + " may destroy something for good. " + often, "Yes, run it");
      if (!sure) return;
    }
    decide(card, "approve", grant ? { mode: "grant", grant } : {});
  }

  // terms reads what a form says of a grant; what is left empty is left out.
  function terms(form) {
    const { scope, max_calls: calls, expires_in: span, unreviewed } = Object.fromEntries(new FormData(form));
    const pin = new FormData(form).getAll("pin");
    return { scope, ...(calls && { max_calls: Number(calls) }), ...(span && { expires_in: span }), ...(pin.length && { pin }), ...(unreviewed && { unreviewed: true }) };
  }

  async function answer(form) {
    const card = form.closest("[data-request]"), verb = form.dataset.verdict, error = $(".error", card);
    error.hidden = true;
    $$("button", card).forEach((b) => { b.disabled = true; });
    const body = verb === "approve" ? terms(form) : form.reason.value ? { reason: form.reason.value } : {};
    try {
      await call("POST", `/api/v1/grant-requests/${encodeURIComponent(card.dataset.request)}/${verb}`, body);
      notice((verb === "approve" ? "Granted: " : "Refused: ") + card.dataset.what);
      card.remove();
      count();
    } catch (e) {
      $$("button", card).forEach((b) => { b.disabled = false; });
      error.textContent = e.message;
      error.hidden = false;
    }
  }

  async function reveal(id) {
    await htmx.ajax("GET", `/inbox/${encodeURIComponent(id)}/params`, { target: "#params-" + CSS.escape(id), swap: "innerHTML" });
    $(`[data-reveal="${CSS.escape(id)}"]`).remove();
    document.getElementById("params-" + id).focus({ preventScroll: true });
  }

  // ── forms of the settings ────────────────────────────────────────────────
  const out = (root, name, text) => { $(`[data-out=${name}]`, root).textContent = text; root.hidden = false; };

  const snippet = (url) => JSON.stringify({
    $schema: "https://opencode.ai/config.json",
    mcp: { sallyport: { type: "remote", url, enabled: true, oauth: false, headers: { Authorization: "Bearer {env:SALLYPORT_TOKEN}" } } },
  }, null, 2);

  // renew fetches a list of this page anew; what stands around it, such as a
  // secret that is shown once, stays.
  async function renew(id) {
    const res = await fetch(location.pathname, { credentials: "same-origin" });
    const list = res.ok && new DOMParser().parseFromString(await res.text(), "text/html").getElementById(id);
    if (!list) return;
    document.getElementById(id).replaceWith(list);
    tick();
  }

  const forms = {
    async session(v) {
      const s = await call("POST", "/api/v1/sessions", v.connections ? { ...v, connections: [v.connections] } : v);
      const box = $("#session-once");
      out(box, "env", "export SALLYPORT_TOKEN=" + s.token);
      out(box, "snippet", snippet(s.mcp_url));
      await renew("session-list");
      return false;
    },
    async key(v) {
      const k = await call("POST", "/api/v1/api-keys", v);
      out($("#key-once"), "key", k.key);
      await renew("key-list");
      return false;
    },
    async user(v) { await call("POST", "/api/v1/users", v); return true; },
    async mode(v) { await call("PUT", "/api/v1/policy/modes/" + encodeURIComponent(v.key), { mode: v.mode }); return true; },
    async connector(v, form) {
      const c = await call("POST", "/api/v1/connectors", { name: v.name, ...upstream(form) });
      const page = "/settings/connectors/" + c.id; // it is there now, whatever its server says
      if (c.oauth && c.oauth.kind === "authorization_code") return signInTo(c.id).then((to) => to || page, (e) => { sessionStorage.setItem(FAILED, e.message); return page; });
      await call("POST", `/api/v1/connectors/${c.id}/validate`).catch(() => {});
      return page;
    },
    async change(v, form) {
      const c = await call("PATCH", "/api/v1/connectors/" + form.dataset.connector, { name: v.name, ...upstream(form, true) });
      if (c.enabled) await call("POST", `/api/v1/connectors/${c.id}/validate`).catch(() => {});
      return true;
    },
    async connect(v, form) {
      const body = connecting(v, form);
      if (!("browser" in form.dataset)) {
        return connected(await call("POST", "/api/v1/integrations", body));
      }
      const link = await call("POST", "/api/v1/integrations/connect", body);
      const to = webPage(link.url);
      if (!(await ask(`Go on at ${to.host}?`, `To connect, you sign in at ${to.host}. Go there only if you know it as the service's, or as your own server.`, "Go there", ""))) return nothing;
      if (!link.token) return to.href;
      const box = form.nextElementSibling; // which ends it
      $("a", box).href = to.href;
      box.dataset.state = link.state;
      box.hidden = false;
      return nothing;
    },
    async broker(v, form) {
      const { provider, state } = form.dataset;
      return connected((await call("POST", "/api/v1/oauth/finish", { provider, state, ...v })).integration);
    },
    async integration(v, form) {
      const body = {};
      for (const f of form.elements) if (f.name && f.name !== "settings" && changed(f)) body[f.name] = f.type === "number" ? Number(f.value) : f.value;
      const settings = form.elements.settings;
      if (settings && changed(settings)) body.settings = json(settings.value || "{}");
      await call("PATCH", "/api/v1/integrations/" + encodeURIComponent(form.dataset.integration), body);
      return true;
    },
    async app(v, form) {
      const { keys, ...body } = v;
      if (keys) body.keys = pairs(keys);
      await call("PUT", "/api/v1/integrations/apps/" + encodeURIComponent(form.dataset.provider), body);
      return true;
    },
    async onboard(v, form) {
      const tools = $$("tr[data-tool]", form).filter((row) => "fresh" in row.dataset || $("select", row).value).map((row) => ({
        tool: row.dataset.tool, behaviour_hash: row.dataset.behaviour, text_hash: row.dataset.text, mode: $("select", row).value || undefined,
      }));
      if (!tools.length) throw new Error("Nothing is chosen: every tool stays as it is.");
      await call("POST", `/api/v1/connectors/${form.dataset.connector}/onboard`, { tools });
      return true;
    },
  };

  // ── integrations ─────────────────────────────────────────────────────────
  const nothing = {}; // is done, and the page stays as it is
  const changed = (f) => f.selectedOptions ? !f.selectedOptions[0]?.defaultSelected : f.type === "checkbox" ? f.checked !== f.defaultChecked : f.value !== f.defaultValue;
  const pairs = (text) => Object.fromEntries(text.split("\n").filter((l) => l.trim()).map((l) => [l.split(":")[0].trim(), l.split(":").slice(1).join(":").trim()]));

  // json keeps an error of the form's own words.
  function json(text) {
    try { return JSON.parse(text); } catch (e) { throw new Error("The settings are no JSON: " + e.message); }
  }

  function webPage(address) {
    const to = new URL(address);
    if (to.protocol !== "https:" && to.protocol !== "http:") throw new Error("The service named an address that is no web page.");
    return to;
  }

  // at is the address of a part of a page, which is loaded also from itself.
  function at(path, part) {
    if (location.pathname !== path) return path + "#" + part;
    history.replaceState(null, "", "#" + part);
    return true;
  }

  // connected leads to what is connected now, where it is told.
  function connected(integration) {
    remember(`${spell(integration.name)} is connected.`);
    return at(`/settings/integrations/${integration.provider}`, integration.id);
  }

  function connecting(v, form) {
    const { own, private: alone, nango, settings, timeout_seconds: seconds, ...body } = v;
    Object.assign(body, { provider: form.dataset.provider, kind: form.dataset.kind });
    if (own) body.own = true;
    else if (alone) body.visibility = "private";
    if (form.elements.nango && form.elements.nango.checked) body.broker = "nango";
    if (settings) body.settings = json(settings);
    if (seconds) body.timeout_seconds = Number(seconds);
    return body;
  }

  async function disconnect(button) {
    const name = button.dataset.name;
    if (!(await ask("Disconnect?", `Disconnect ${name}? Agents cannot use it any more, and its credential is wiped here.`, "Disconnect"))) return;
    button.disabled = true;
    try {
      const { revoked } = await call("DELETE", "/api/v1/integrations/" + encodeURIComponent(button.dataset.disconnect));
      if (!revoked) await ask("Disconnected here", "The credential was not taken back: remove it at the service too, if it is still good.", "I will", "");
      location.reload();
    } catch (e) { notice(e.message); }
    button.disabled = false;
  }

  // ── connectors ───────────────────────────────────────────────────────────
  // upstream reads what a form says of a server: of a new one what is filled
  // in, of one that is there what was changed.
  function upstream(form, there) {
    const field = (name) => form.elements[name];
    const said = (name) => field(name) && (there ? changed(field(name)) : field(name).value !== "");
    const body = {}, auth = field("auth").value;
    for (const name of ["preset", "variant", "url", "slug", "review", "default_risk"]) if (said(name)) body[name] = field(name).value;
    const boxes = $$("[name=may_ask]", form);
    if (boxes.some(changed)) body.may_ask = boxes.filter((b) => b.checked).map((b) => b.value);
    if (changed(field("per_agent"))) body.per_agent = field("per_agent").checked;
    if (said("headers")) body.headers = pairs(field("headers").value);
    if (auth === "secret") {
      for (const name of ["header", "prefix"]) if (said(name)) body[name] = field(name).value;
      if (field("secret_value").value) body.secret_value = field("secret_value").value;
    }
    if (there && auth !== "secret" && changed(field("auth"))) body.secret = "";
    if (auth === "authorization_code" || auth === "client_credentials") body.oauth = oauth(field, auth);
    else if (there && changed(field("auth"))) body.oauth = { kind: "none" };
    return body;
  }

  function oauth(field, kind) {
    const o = { kind };
    for (const name of ["client_id", "client_secret", "issuer"]) if (field(name).value) o[name] = field(name).value;
    const scopes = field("scopes").value.split(/\s+/).filter(Boolean);
    return scopes.length ? { ...o, scopes } : o;
  }

  // fit shows the fields that belong to how the gateway signs in.
  function fit(form) {
    const auth = form.elements.auth.value;
    for (const group of $$("[data-auth]", form)) group.hidden = group.dataset.auth !== (auth === "secret" ? "secret" : auth === "none" ? "" : "oauth");
  }

  let presets;
  async function choosePreset(form) {
    presets ??= (await call("GET", "/api/v1/connectors/presets")).items;
    const p = presets.find((x) => x.name === form.elements.preset.value) || { auth: [], variants: [], name: "" };
    const f = form.elements, hint = $("[data-hint]", form), variants = $("[data-variants]", form);
    if (p.name && (!f.name.value || presets.some((x) => x.title === f.name.value))) f.name.value = p.title;
    f.variant.replaceChildren(new Option("the usual one", ""), ...p.variants.map((v) => new Option(v.title || v.name, v.name)));
    variants.hidden = !p.variants.length;
    f.auth.value = { secret: "secret", oauth: "authorization_code" }[p.auth[0]] || "none";
    f.header.placeholder = p.header || "Authorization";
    f.prefix.placeholder = p.name ? p.prefix || "nothing" : "Bearer ";
    hint.textContent = (p.hint || "") + (p.unsure && p.unsure.length ? " Its own documentation was not seen to say all of this: check it there." : "");
    hint.hidden = !p.hint;
    f.url.required = !p.name;
    usual(form, p);
    fit(form);
  }

  // usual shows where a preset leads as long as no other address is given.
  function usual(form, p) {
    const v = p.variants.find((x) => x.name === form.elements.variant.value) || {};
    form.elements.url.placeholder = v.url || p.url || "https://mcp.example.com/mcp";
    if (v.auth && v.auth.length) form.elements.auth.value = { secret: "secret", oauth: "authorization_code" }[v.auth[0]] || "none";
  }

  const spell = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");

  // tried says what a server answered to a check. What it wrote itself stays
  // text; control characters in it are spelled out by the server's own page.
  function tried(box, v) {
    const line = (tag, text, kind) => { const e = document.createElement(tag); e.textContent = text; if (kind) e.className = kind; return e; };
    const out = [];
    if (v.diagnosis || v.error) out.push(line("p", (v.diagnosis ? v.diagnosis.code + ": " : "") + spell(v.error || v.diagnosis.message), "error"));
    else out.push(line("p", `It answers${v.protocol_version ? ", with MCP " + spell(v.protocol_version) : ""}: ${["tool", "resource", "template", "prompt"].map((w) => `${v[w + "_count"]} ${w}${v[w + "_count"] === 1 ? "" : "s"}`).join(", ")}.`));
    for (const w of v.warnings) out.push(line("p", spell(w), "warn"));
    const steps = (v.steps || []).map((x) => `${x.name} ${x.took_ms ? x.took_ms.toFixed(1) + " ms" : "not needed"}`);
    if (steps.length) out.push(line("p", spell(steps.join(" · ")), "hint"));
    if (v.tools && v.tools.length) {
      const list = line("details", ""), ul = document.createElement("ul");
      list.append(line("summary", "Tools and their risks"), ul);
      for (const t of v.tools.slice(0, 500)) ul.append(line("li", `${spell(t.name)} · ${t.risk}`));
      out.push(list);
    }
    box.replaceChildren(...out);
    box.hidden = false;
  }

  async function tryFirst(button) {
    const form = button.form, box = $("[data-tried]", form), error = $(".error", form);
    error.hidden = true;
    button.disabled = true;
    try {
      const { slug, ...body } = upstream(form);
      tried(box, await call("POST", "/api/v1/connectors/validate", body));
    } catch (e) { box.hidden = true; error.textContent = e.message; error.hidden = false; }
    button.disabled = false;
  }

  // signInTo returns where the browser goes for a sign-in to a service, or null
  // when the person does not want to go there: the connector's server alone says
  // where that is.
  async function signInTo(id) {
    const link = await call("POST", `/api/v1/connectors/${encodeURIComponent(id)}/sign-in`);
    const to = webPage(link.authorize_url);
    const whose = link.issuer ? `, a page of the authorization server ${spell(link.issuer)}` : "";
    const sure = link.known || await ask(`Sign in at ${to.host}?`, `The connector's server leads you to ${to.host}${whose}. Go there only if you know it as the service's: whoever runs that page may ask for a password.`, "Go there", "");
    return sure ? to.href : null;
  }

  // signInFailed shows why the sign-in of a connector that was just added could
  // not begin, or why this one cannot.
  function signInFailed(text) {
    const box = $("#sign-in-error");
    if (!box) { notice(text); return; }
    box.textContent = text;
    box.hidden = false;
    box.scrollIntoView({ block: "nearest" });
  }

  // finishSignIn takes over what a service put into the address, which must
  // not stay there.
  async function finishSignIn() {
    const say = (text) => { $("#callback-state").textContent = text; };
    const q = new URLSearchParams(location.search);
    history.replaceState(null, "", location.pathname);
    const body = {}, provider = location.pathname.split("/")[3]; // none: of a connector
    if (provider) body.provider = decodeURIComponent(provider);
    for (const name of ["state", "code", "iss", "error", "installation_id", "setup_action", "connection_id"]) if (q.get(name)) body[name] = q.get(name);
    if (body.setup_action === "request") { say("The app is asked for, and not installed yet: an owner of the account at GitHub must agree. Once that is done, connect it again here; it takes a moment then."); return; }
    if (!body.state && body.installation_id) { say("The app was installed or changed at GitHub, but this was not begun here, so nothing was connected. To connect the installation, open GitHub under Integrations and choose to connect by installing the app."); return; }
    if (!body.state) { say("There is nothing to finish here. Begin at the connector, with Sign in, or at the integration, with Connect."); return; }
    try {
      const c = await call("POST", "/api/v1/oauth/finish", body);
      if (c.of === "integration") { location.replace(connected(c.integration)); return; }
      remember(`${spell(c.name)} is connected.`);
      location.replace("/settings/connectors/" + encodeURIComponent(c.id));
    } catch (e) {
      say(e.status === 401 ? "This browser is not signed in to the gateway, so nothing was finished. Sign in here first, then begin the sign-in to the service again." : e.message);
    }
  }

  async function submit(form) {
    const error = $(".error", form), button = $("button", form);
    error.hidden = true;
    button.disabled = true;
    try {
      const values = Object.fromEntries([...new FormData(form)].filter(([, v]) => v !== ""));
      const next = await forms[form.dataset.form](values, form);
      if (typeof next === "string") location.assign(next);
      else if (next === nothing) button.disabled = false;
      else if (next) location.reload();
      else form.reset();
    } catch (e) {
      error.textContent = e.message;
      error.hidden = false;
      if (e.field === "/secret_value" && form.elements.secret_value) form.elements.secret_value.focus();
    }
    button.disabled = false;
  }

  async function press(button) {
    if (button.dataset.ask && !(await ask("Are you sure?", button.dataset.ask, "Yes"))) return;
    const [method, path] = button.dataset.call.split(" ");
    button.disabled = true;
    try {
      const answer = await call(method, path);
      const { then } = button.dataset;
      if (answer.error && !then) notice(answer.error);
      else if (then && then !== "reload") location.assign(then);
      else location.reload();
    } catch (e) { notice(e.message); }
    button.disabled = false;
  }

  async function leave(button) {
    button.disabled = true;
    try {
      const to = await signInTo(button.dataset.signIn);
      if (to) location.assign(to);
    } catch (e) { signInFailed(e.message); }
    button.disabled = false;
  }

  async function removeMode(button) {
    const q = button.dataset.automation ? "?automation=" + encodeURIComponent(button.dataset.automation) : "";
    try {
      await call("DELETE", "/api/v1/policy/modes/" + encodeURIComponent(button.dataset.removeMode) + q);
      location.reload();
    } catch (e) { notice(e.message); }
  }

  // review takes a tool as reviewed, as it is shown on this page; one that is
  // not listed any more has no hashes, and is forgotten.
  async function review(button, connector, rows) {
    button.disabled = true;
    try {
      const tools = rows.map(({ dataset: { tool, behaviour, text } }) => ({ tool, behaviour_hash: behaviour, text_hash: text }));
      await call("POST", `/api/v1/connectors/${encodeURIComponent(connector)}/review`, { tools });
      location.reload();
    } catch (e) { notice(e.message); }
    button.disabled = false;
  }

  function reviewOne(button) {
    const row = button.closest("tr");
    review(button, row.closest("table").dataset.connector, [row]);
  }

  async function reviewAll(button) {
    const connector = button.dataset.reviewAll, rows = $$(`table[data-connector="${CSS.escape(connector)}"] tr[data-tool]`);
    if (await ask("Take them all as reviewed?", `You have looked at the ${rows.length} tools shown, each with its changes.`, "Yes, all")) review(button, connector, rows);
  }

  async function link(user) {
    try { out($("#link-once"), "link", (await call("POST", `/api/v1/users/${encodeURIComponent(user)}/login-link`)).url); } catch (e) { notice(e.message); }
  }

  // ── signing in and out ───────────────────────────────────────────────────
  function next() {
    const to = new URLSearchParams(location.search).get("next") || "/";
    const url = new URL(to, location.origin);
    return url.origin === location.origin ? url.pathname + url.search : "/";
  }

  async function signIn() {
    const say = (text) => { $("#login-state").textContent = text; };
    const [code, key] = location.hash.slice(1).split(".");
    history.replaceState(null, "", location.pathname + location.search);
    if (!code || !key) {
      // A link from elsewhere arrives without the cookie; from here it goes along.
      const res = await fetch("/api/v1/me", { credentials: "same-origin" });
      if (res.ok) location.replace(next());
      return;
    }
    say("Signing in…");
    const res = await fetch("/login", { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) });
    if (!res.ok) {
      const p = await res.json().catch(() => ({}));
      say(p.detail || "Signing in failed.");
      if (p.detail) $("#login .hint").hidden = true; // it says the same
      return;
    }
    localStorage.setItem(KEY, key);
    location.replace(next());
  }

  async function signOut() {
    await fetch("/logout", { method: "POST", credentials: "same-origin" });
    localStorage.removeItem(KEY);
    location.assign("/login");
  }

  // ── what happens when ────────────────────────────────────────────────────
  document.addEventListener("click", (e) => {
    const b = e.target.closest("button");
    if (!b) return;
    const card = b.closest(".card");
    if (b.dataset.decide === "approve") approve(card);
    else if (b.dataset.decide === "deny") { $(".buttons", card).hidden = true; $(".reason", card).hidden = false; $("input", card).focus(); }
    else if (b.dataset.decide === "cancel") { $(".buttons", card).hidden = false; $(".reason", card).hidden = true; $("[data-decide=deny]", card).focus(); }
    else if (b.dataset.reveal) reveal(b.dataset.reveal);
    else if (b.dataset.call) press(b);
    else if (b.dataset.removeMode) removeMode(b);
    else if ("review" in b.dataset) reviewOne(b);
    else if (b.dataset.reviewAll) reviewAll(b);
    else if (b.dataset.signIn) leave(b);
    else if ("try" in b.dataset) tryFirst(b);
    else if (b.dataset.disconnect) disconnect(b);
    else if (b.dataset.link) link(b.dataset.link);
    else if ("signOut" in b.dataset) signOut();
    else if (b.id === "fresh") showFresh();
  });

  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (form.method === "dialog") return;
    e.preventDefault();
    if (form.matches(".reason")) decide(form.closest(".card"), "deny", form.reason.value ? { reason: form.reason.value } : {});
    else if ("granting" in form.dataset) approve(form.closest(".card"), terms(form));
    else if (form.dataset.verdict) answer(form);
    else if (form.dataset.form) submit(form);
  });

  document.addEventListener("change", (e) => {
    const form = e.target.form;
    if (!form || !form.elements.auth) return;
    if (e.target.name === "preset") choosePreset(form).catch((x) => notice(x.message));
    else if (e.target.name === "variant") { usual(form, presets.find((p) => p.name === form.elements.preset.value)); fit(form); }
    else if (e.target.name === "auth") fit(form);
  });
  for (const form of $$("form[data-form=connector], form[data-form=change]")) fit(form);

  if (document.body.dataset.page === "callback") finishSignIn();
  if ($("#sign-in-error") && sessionStorage.getItem(FAILED)) {
    signInFailed(sessionStorage.getItem(FAILED));
    sessionStorage.removeItem(FAILED);
  }
  if (document.body.dataset.page !== "callback" && sessionStorage.getItem(DONE)) {
    notice(sessionStorage.getItem(DONE));
    sessionStorage.removeItem(DONE);
  }
  if (document.body.dataset.page === "login") {
    signIn();
    addEventListener("hashchange", () => { if (location.hash) signIn(); }); // a link pasted into this very page
  }
  tick();
  setInterval(tick, 1000);
  if (list) listen();
  if (inbox) count();
})();
