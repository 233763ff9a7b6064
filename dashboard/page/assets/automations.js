"use strict";
// Automations, triggers, schedules, runs, events and deliveries.
(() => {
  const { $, $$, call, notice, ask, confirmed, formatTime, showOutput, tick, live, forms, presses, nothing, remember } = sallyport;

  // ── lists that stay current ──────────────────────────────────────────────
  // Parts with data-live reload on events; those with data-poll also every few seconds
  // while the page is visible. Unchanged parts stay, with open details and focus.
  const POLL = 4000;
  let known = new Map(), soon;
  const keep = (root = document) => { known = new Map($$("[data-live]", root).map((part) => [part.id, part.innerHTML])); };
  keep(); // before the times in it are words

  async function refresh() {
    soon = undefined;
    const at = location.href, res = await fetch(at, { credentials: "same-origin" });
    if (!res.ok || at !== location.href) return;
    const fresh = new DOMParser().parseFromString(await res.text(), "text/html");
    for (const part of $$("[data-live]", fresh)) {
      const here = document.getElementById(part.id);
      if (here && known.get(part.id) !== part.innerHTML && !busy(here)) replace(here, part);
    }
    tick();
    renderDueTimes();
  }

  // busy reports whether the user has started to fill in a form in a part.
  const busy = (part) => $$("input, textarea, select", part).some((f) => f === document.activeElement || sallyport.changed(f));

  function replace(here, part) {
    const focus = here.contains(document.activeElement) && selectorOf(document.activeElement);
    const open = $$("details[open]", here).map((d) => d.id || $("summary", d).textContent);
    known.set(part.id, part.innerHTML);
    here.replaceChildren(...part.childNodes);
    for (const d of $$("details", here)) if (open.includes(d.id || $("summary", d).textContent)) d.open = true;
    if (focus) ($(focus, here) || here.querySelector("a, button"))?.focus({ preventScroll: true });
  }

  // selectorOf returns a selector that finds a control again after its part is replaced.
  function selectorOf(e) {
    for (const name of ["id", "href", "data-call", "data-path"]) {
      if (e.hasAttribute(name)) return `[${name}="${CSS.escape(e.getAttribute(name))}"]`;
    }
    return "a, button, summary";
  }

  const refreshSoon = () => { soon ??= setTimeout(() => refresh().catch(() => { soon = undefined; }), 300); };
  for (const kind of ["ready", "reload", "run", "invocation"]) live(kind, refreshSoon);
  setInterval(() => { if (!document.hidden && $("[data-poll]")) refreshSoon(); }, POLL);

  // go opens another page without a navigation, so that a secret that is shown once never
  // passes through storage.
  async function go(path) {
    const res = await fetch(path, { credentials: "same-origin" });
    if (!res.ok) { location.assign(path); return; }
    const page = new DOMParser().parseFromString(await res.text(), "text/html");
    keep(page);
    $("#main").replaceChildren(...$("#main", page).childNodes);
    document.title = page.title;
    history.pushState(null, "", path);
    tick();
    $("#main").focus();
    scrollTo(0, 0);
  }
  addEventListener("popstate", () => location.reload());

  // showSecret shows a secret once.
  function showSecret(box, secret) {
    if (!secret) return;
    showOutput(box, "secret", secret);
    box.scrollIntoView({ block: "nearest" });
  }

  // ── filters ──────────────────────────────────────────────────────────────
  const step = (s) => s.replaceAll("~1", "/").replaceAll("~0", "~");
  const texts = (f) => f.value.split("\n").map((s) => s.trim()).filter(Boolean);

  // fieldError throws a validation error for a field.
  const fieldError = (field, text) => { throw Object.assign(new Error(text), { field: "/" + field.name }); };

  function numeric(field, text) {
    const n = Number(text);
    if (text === "" || !Number.isFinite(n)) fieldError(field, `${JSON.stringify(text)} is not a number.`);
    return n;
  }

  function parsed(field) {
    try { return JSON.parse(field.value); } catch (e) { return fieldError(field, "Not valid JSON: " + e.message); }
  }

  // value reads each kind of control; undefined means empty.
  const value = {
    group: () => undefined, // its controls say it
    text: (f) => f.value.trim() || undefined,
    choice: (f) => f.value || undefined,
    flag: (f) => f.checked || undefined,
    number: (f) => f.value.trim() === "" ? undefined : numeric(f, f.value.trim()),
    lines: (f) => texts(f).length ? texts(f) : undefined,
    numbers: (f) => texts(f).length ? texts(f).map((t) => numeric(f, t)) : undefined,
    choices: (f) => { const on = $$("input:checked", f).map((i) => i.value); return on.length ? on : undefined; },
    json: (f) => f.value.trim() === "" ? undefined : parsed(f),
  };

  function config(form) {
    let all = {};
    for (const f of $$("[data-pointer]", form)) {
      const v = value[f.dataset.kind](f);
      if (v === undefined) continue;
      if (f.dataset.pointer === "") { all = v; continue; }
      const path = f.dataset.pointer.split("/").map(step), last = path.pop();
      let at = all;
      for (const name of path) at = at[name] ??= {};
      at[last] = v;
    }
    return all;
  }

  // withFieldErrors assigns a config error to the control closest to its JSON Pointer.
  const withFieldErrors = (f) => async (v, form) => {
    try { return await f(v, form); } catch (e) {
      if (e.field !== "/config" && !e.field?.startsWith("/config/")) throw e;
      let near;
      for (const c of $$("[data-pointer]", form)) {
        const at = "/config" + (c.dataset.pointer && "/" + c.dataset.pointer);
        if ((e.field === at || e.field.startsWith(at + "/")) && (!near || c.dataset.pointer.length > near.dataset.pointer.length)) near = c;
      }
      e.field = near ? "/" + near.name : "";
      throw e;
    }
  };

  // ── forms ────────────────────────────────────────────────────────────────
  const id = (x) => encodeURIComponent(x);
  Object.assign(forms, {
    async automation(v) {
      const a = await call("POST", "/api/v1/automations", v);
      remember("Automation created. Add a trigger or schedule to start it.");
      return "/automations/" + a.id;
    },
    async automationChange(v, form) {
      await call("PATCH", "/api/v1/automations/" + id(form.dataset.automation), { name: form.elements.name.value, instructions: form.elements.instructions.value, group: form.elements.group.value });
      return true;
    },
    async bindings(v, form) {
      await call("PUT", `/api/v1/automations/${id(form.dataset.automation)}/connections`, { connections: $$("input:checked", form).map((i) => i.value) });
      remember("Saved");
      return true;
    },
    trigger: withFieldErrors(async (v, form) => {
      const body = { provider: form.dataset.provider, event_type: form.dataset.type, automation: v.automation, name: v.name, trigger_type: v.trigger_type, config: config(form) };
      if (v.integration_id) body.integration_id = v.integration_id;
      if (v.trigger_type === "polling") body.interval_seconds = Number(v.interval_seconds);
      else if (v.secret) body.secret = v.secret;
      const t = await call("POST", "/api/v1/triggers", body);
      await go("/triggers/" + t.id);
      showSecret($("#secret-once"), t.secret);
      notice("Trigger created");
      return nothing;
    }),
    triggerChange: withFieldErrors(async (v, form) => {
      const body = { name: v.name, config: config(form) };
      if (form.elements.integration_id) body.integration_id = form.elements.integration_id.value;
      if (v.interval_seconds) body.interval_seconds = Number(v.interval_seconds);
      await call("PATCH", "/api/v1/triggers/" + id(form.dataset.trigger), body);
      remember("Saved");
      return true;
    }),
    async rotate(v, form) {
      const made = await call("POST", form.dataset.path, v);
      if (!made.secret) { remember("Secret saved"); return true; }
      await go(location.pathname);
      showSecret($("#secret-once"), made.secret);
      return nothing;
    },
    async schedule(v, form) {
      const { schedule } = form.dataset;
      await call(schedule ? "PATCH" : "POST", "/api/v1/schedules" + (schedule ? "/" + id(schedule) : ""), v);
      remember(schedule ? "Saved" : "Schedule created");
      return "/schedules";
    },
    async resolve(v, form) { await call("POST", `/api/v1/runs/${id(form.dataset.run)}/resolve`, v); return true; },
    async cancel(v, form) {
      if (!(await ask("Cancel this run?", "The worker loses the run, its session ends and pending calls are withdrawn.", "Cancel run", "danger"))) return nothing;
      await call("POST", `/api/v1/runs/${id(form.dataset.run)}/cancel`, v);
      return true;
    },
    async endpoint(v) {
      const e = await call("PUT", "/api/v1/run-endpoint", v);
      await go(location.pathname + location.search);
      if (e.secret) showSecret($("#endpoint-once"), e.secret);
      else notice("Saved");
      return nothing;
    },
    async endpointRotate(v) {
      const made = await call("POST", "/api/v1/run-endpoint/rotate", v);
      await go(location.pathname + location.search);
      showSecret($("#endpoint-once"), made.secret);
      return nothing;
    },
  });

  // ── buttons ──────────────────────────────────────────────────────────────
  Object.assign(presses, {
    async patch(button) {
      if (!(await confirmed(button))) return;
      await call("PATCH", button.dataset.path, JSON.parse(button.dataset.body));
      location.reload();
    },
    async endpointSwitch(button) {
      if (!(await confirmed(button))) return;
      await call("PUT", "/api/v1/run-endpoint", { url: button.dataset.url, enabled: button.dataset.enabled === "true" });
      location.reload();
    },
    // whole replaces its button with the full text.
    async whole(button) {
      const res = await fetch(button.dataset.path, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await res.text(), "text/html");
      if (!res.ok) throw new Error($("#main p", page)?.textContent || "The context is no longer stored.");
      const shown = $("pre", page);
      button.parentElement.replaceChildren(shown);
      shown.focus();
    },
    async cron(button) {
      const field = $("[name=cron_expression]", button.closest("form"));
      field.value = button.dataset.cron;
      preview();
      field.focus();
    },
  });

  // ── schedules ────────────────────────────────────────────────────────────
  const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const inBothZones = (time, zone) => formatTime(time, zone) + (zone === ownZone ? "" : ` · ${formatTime(time)} local time`);

  // renderDueTimes shows due times in the time zone of the schedule and of the viewer.
  function renderDueTimes() {
    for (const t of $$("time[data-zone]")) t.textContent = inBothZones(new Date(t.dateTime), t.dataset.zone);
  }

  let previews = 0, typing;
  async function preview() {
    const form = $("form[data-form=schedule]"), box = $("[data-times]", form), turn = ++previews;
    const cron = form.elements.cron_expression.value.trim(), zone = form.elements.timezone.value.trim() || "UTC";
    if (!cron) { box.hidden = true; return; }
    let lines, failed;
    try {
      const { times } = await call("POST", "/api/v1/schedules/preview", { cron_expression: cron, timezone: zone });
      lines = times.length ? times.map((t) => inBothZones(new Date(t), zone)) : ["never"];
    } catch (e) { failed = e.message; }
    if (turn !== previews) return; // the user kept typing
    const head = document.createElement("b"), list = document.createElement("ol");
    head.textContent = failed ? "Invalid schedule: " : `The next ${lines.length === 1 ? "time" : lines.length + " times"}, in ${zone}${zone === ownZone ? "" : ` and your time zone (${ownZone})`}:`;
    for (const line of lines || []) list.append(Object.assign(document.createElement("li"), { textContent: line }));
    box.replaceChildren(head, failed ? failed : list);
    box.hidden = false;
  }

  function fit(form) {
    const polling = form.elements.trigger_type.value === "polling";
    for (const part of $$("[data-polling]", form)) part.hidden = !polling;
    for (const part of $$("[data-webhook]", form)) part.hidden = polling;
    if (form.elements.integration_id) form.elements.integration_id.required = polling;
  }

  document.addEventListener("input", (e) => {
    if (!("preview" in e.target.dataset)) return;
    clearTimeout(typing);
    typing = setTimeout(preview, 250);
  });
  document.addEventListener("change", (e) => { if (e.target.name === "trigger_type") fit(e.target.form); });
  document.addEventListener("DOMContentLoaded", () => {
    renderDueTimes();
    const zones = $("#zones");
    if (zones) {
      zones.replaceChildren(...["UTC", ...Intl.supportedValuesOf("timeZone")].map((z) => new Option(z, z)));
      const field = $("[name=timezone]");
      if (!field.value && !$("form[data-schedule]")) field.value = ownZone;
      if ($("[name=cron_expression]").value) preview();
    }
    const form = $("form[data-form=trigger]");
    if (form) fit(form);
  });
})();
