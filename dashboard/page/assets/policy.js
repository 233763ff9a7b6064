"use strict";
// Overrides, group access, gates, rate limits, approval settings and grants.
(() => {
  const { $, $$, call, ask, remember, forms, presses, nothing, clearErrors, tick } = sallyport;

  const lines = (text) => (text || "").split("\n").map((l) => l.trim()).filter(Boolean);
  const keyOf = (source, action) => source === "*" ? "*" : source + ":" + action;

  // part fetches a rendered fragment.
  async function part(path, query) {
    const res = await fetch(path + "?" + new URLSearchParams(query), { credentials: "same-origin" });
    return new DOMParser().parseFromString(await res.text(), "text/html").body;
  }

  // ── choosing an action ───────────────────────────────────────────────────
  // The tool field suggests the tools of the chosen source.
  let lists = 0;
  function pick(box) {
    const source = $("[name=source]", box), action = $("[name=action]", box), form = source.form;
    const list = document.createElement("datalist");
    list.id = "actions-" + ++lists;
    box.append(list);
    action.setAttribute("list", list.id);
    let shown;
    async function offer() {
      if (source.value === shown) return;
      shown = source.value;
      list.replaceChildren();
      const all = source.value === "*";
      action.readOnly = all;
      if (all) action.value = form.dataset.form === "grant" ? "" : "*";
      else if (action.value === "*") action.value = "";
      if (!source.value || all) return;
      const got = await part("/policy/actions", { source: source.value }), asked = source.value;
      if (asked === shown) list.replaceChildren(...$$("option", got));
    }
    source.addEventListener("change", offer);
    form.addEventListener("focusin", offer, { once: true });
  }

  // showCurrent shows the current decision for the tool of a form.
  const timers = new WeakMap();
  function showCurrent(form) {
    clearTimeout(timers.get(form));
    timers.set(form, setTimeout(async () => {
      const { source, action, automation } = form.elements, box = $("[data-now]", form);
      if (!source.value || !action.value) return;
      const question = { key: keyOf(source.value, action.value) + (source.value === "*" ? ":*" : ""), automation: automation.value };
      const got = await part("/policy/answer", question);
      if (question.key.startsWith(source.value)) box.replaceChildren(...got.childNodes);
    }, 250));
  }

  // ── modes ────────────────────────────────────────────────────────────────
  forms.mode = async ({ source, action, mode, automation }) => {
    const key = keyOf(source, action);
    const set = await call("PUT", "/api/v1/policy/modes/" + encodeURIComponent(key), { mode, automation });
    remember("Override saved. " + (set.warning || ""));
    return "/policy?" + new URLSearchParams({ key, ...(automation && { automation }) }) + "#modes";
  };

  presses.changeMode = (button) => {
    const { key, mode, automation } = button.dataset, form = $("[data-form=mode]"), at = key.lastIndexOf(":");
    clearErrors(form);
    const source = at < 0 || key === "*:*" ? "*" : key.slice(0, at), f = form.elements;
    $("#set-mode").open = true;
    if (![...f.source.options].some((o) => o.value === source)) {
      const known = [...f.source.options].find((o) => o.value === "module:" + source);
      if (!known) f.source.add(new Option(source, source));
    }
    f.source.value = [...f.source.options].some((o) => o.value === "module:" + source) ? "module:" + source : source;
    f.source.dispatchEvent(new Event("change"));
    f.action.value = source === "*" ? "*" : key.slice(at + 1);
    f.automation.value = automation;
    f.mode.value = mode;
    showCurrent(form);
    f.mode.focus();
    form.scrollIntoView({ block: "nearest" });
  };

  presses.removeMode = async (button) => {
    const { key, name, automation } = button.dataset, query = { key, automation };
    const then = $("#removed", await part("/policy/removed", query));
    if (!(await ask("Remove override?", `Remove the override of ${name}? ${then ? then.textContent : ""}`, "Remove", "danger"))) return;
    await call("DELETE", "/api/v1/policy/modes/" + encodeURIComponent(key) + (automation ? "?automation=" + encodeURIComponent(automation) : ""));
    location.reload();
  };

  // filter hides rows that do not match if all rows are on this page; otherwise the server
  // searches.
  function filter(form) {
    const rows = $$("#" + form.dataset.filter + " tbody tr"), f = form.elements, found = $(".found", form);
    const text = f.q.value.trim().toLowerCase();
    let n = 0;
    for (const row of rows) {
      const { text: own, mode, whose } = row.dataset;
      row.hidden = !(own.toLowerCase().includes(text) && (!f.mode.value || f.mode.value === mode) && (!f.whose.value || f.whose.value === whose));
      if (!row.hidden) n++;
    }
    found.textContent = `${n} of ${rows.length}`;
  }

  for (const form of $$("form[data-filter]")) {
    if ("partly" in form.dataset) continue;
    for (const kind of ["input", "change"]) form.addEventListener(kind, () => filter(form));
    form.addEventListener("submit", (e) => { e.preventDefault(); filter(form); });
  }

  // ── groups ───────────────────────────────────────────────────────────────
  presses.closeDialog = (button) => button.closest("dialog").close();

  presses.capability = (button) => {
    const { group, provider, name, has } = button.dataset, box = $("#capability"), form = $("form", box), f = form.elements;
    const c = has ? JSON.parse(has) : null;
    clearErrors(form);
    form.reset();
    form.dataset.was = has || "";
    f.group.value = group;
    f.group.readOnly = !!group;
    if (provider && ![...f.provider.options].some((o) => o.value === provider)) f.provider.add(new Option(name, provider));
    f.provider.value = provider;
    f.provider.disabled = !!provider;
    if (c) fill(f, c);
    const keep = $("option[value=keep]", f.expires_in);
    keep.hidden = keep.disabled = !(c && c.expires_at);
    if (c && c.expires_at) f.expires_in.value = "keep";
    $("[data-press=removeCapability]", form).hidden = !c;
    fit(form);
    box.showModal();
    (group ? f.level : f.group).focus();
  };

  function fill(f, c) {
    f.level.value = c.level;
    f.required_gate.value = c.required_gate || "";
    f.only.checked = c.allowed_actions !== null;
    f.allowed_actions.value = (c.allowed_actions || []).join("\n");
    f.denied_actions.value = (c.denied_actions || []).join("\n");
    if (!c.rate) return;
    f.rate.value = c.rate.calls;
    if (![...f.seconds.options].some((o) => o.value === String(c.rate.seconds))) f.seconds.add(new Option(c.rate.seconds + " seconds", c.rate.seconds));
    f.seconds.value = c.rate.seconds;
  }

  // fit shows the fields that the selection needs.
  function fit(form) {
    $("[data-only]", form).hidden = !form.elements.only.checked;
    form.elements.required_gate.required = form.elements.level.value === "3";
  }

  const place = (f) => "/api/v1/capabilities/" + encodeURIComponent(f.group.value) + "/" + encodeURIComponent(f.provider.value);

  forms.capability = async (v, form) => {
    const f = form.elements, was = form.dataset.was && JSON.parse(form.dataset.was);
    const body = { level: Number(f.level.value), denied_actions: lines(v.denied_actions) };
    if (f.only.checked) body.allowed_actions = lines(v.allowed_actions);
    if (v.required_gate) body.required_gate = v.required_gate;
    if (v.rate) body.rate = { calls: Number(v.rate), seconds: Number(v.seconds) };
    if (v.expires_in === "keep") body.expires_at = was.expires_at;
    else if (v.expires_in) body.expires_in = v.expires_in;
    await call("PUT", place(f), body);
    return true;
  };

  forms.group = async ({ providers, ...v }, form) => {
    const chosen = $$("[name=providers]:checked", form).map((box) => box.value);
    if (!chosen.length) throw Object.assign(new Error("Choose at least one provider."), { field: "/group" });
    await call("POST", "/api/v1/groups", { ...v, providers: chosen });
    remember(`The group ${v.group} was created.`);
    return true;
  };

  presses.removeCapability = async (button) => {
    const f = button.form.elements, at = f.provider.selectedOptions[0].textContent;
    if (!(await ask("Remove group access?", `Sessions of the group ${f.group.value} will lose all access to ${at}, including reads.`, "Remove", "danger"))) return;
    await call("DELETE", place(f));
    location.reload();
  };

  // ── gates, rates, choices ────────────────────────────────────────────────
  forms.gate = async ({ actions, ...v }) => {
    const only = lines(actions);
    await call("POST", "/api/v1/gates", only.length ? { ...v, actions: only } : v);
    return true;
  };

  forms.rate = async ({ source, action, per, calls, seconds }) => {
    await call("PUT", "/api/v1/policy/quotas/" + encodeURIComponent(keyOf(source, action)), { per, calls: Number(calls), seconds: Number(seconds) });
    return true;
  };

  presses.removeRate = async (button) => {
    const { key, per, name } = button.dataset;
    if (!(await ask("Remove rate limit?", `Remove the limit per ${per} of ${name}? Other rate limits stay in place.`, "Remove", "danger"))) return;
    await call("DELETE", `/api/v1/policy/quotas/${encodeURIComponent(key)}?per=${per}`);
    location.reload();
  };

  forms.settings = async (v, form) => {
    const f = form.elements;
    await call("PUT", "/api/v1/policy/settings", {
      self_approval: f.self_approval.checked, unverified_events: f.unverified_events.checked, denial_limit: Number(f.denial_limit.value),
      default_group: f.default_group.value,
    });
    remember("Saved");
    return true;
  };

  // ── grants ───────────────────────────────────────────────────────────────
  // pins parses lines such as /channel = "#general".
  function pins(text) {
    const out = {};
    for (const line of lines(text)) {
      const at = line.indexOf("=");
      const pointer = line.slice(0, at).trim();
      const fault = (why) => Object.assign(new Error(`“${line}”: ${why}`), { field: "/pins" });
      if (at < 0) throw fault("use the form JSON Pointer = value, such as /channel = \"#general\".");
      try { out[pointer] = JSON.parse(line.slice(at + 1)); } catch { throw fault("the value is not valid JSON. Put strings in quotes."); }
    }
    return out;
  }

  // showWarnings shows what is broad about a grant.
  function showWarnings(form) {
    const f = form.elements, box = $("[data-warn]", form), said = [];
    const any = f.any.checked || f.source.value === "*";
    if (any) said.push(`Every non-destructive tool of ${f.source.value === "*" ? "all sources" : "this source"} runs without approval, including tools added later.`);
    if (!f.max_calls.value) said.push("The number of calls is not limited.");
    if (!f.expires_in.value) said.push("The grant never expires.");
    if (f.session_id.value === "*") said.push("It applies to all current and future sessions of the organization.");
    f.action.disabled = any;
    if (f.source.value === "*") f.any.checked = true;
    box.textContent = said.join(" ");
    box.hidden = !said.length;
    return any || !f.max_calls.value ? said : [];
  }

  forms.grant = async (v, form) => {
    const said = showWarnings(form), body = { any: form.elements.any.checked };
    if (said.length && !(await ask("Create a broad grant?", said.join(" "), "Create grant"))) return nothing;
    if (v.session_id === "*") body.scope = "organization"; else Object.assign(body, { scope: "session", session_id: v.session_id });
    if (v.source && v.source !== "*") body.source = v.source;
    if (v.action && !body.any) body.action = v.action;
    if (v.pins) body.pins = pins(v.pins);
    if (v.max_calls) body.max_calls = Number(v.max_calls);
    if (v.expires_in) body.expires_in = v.expires_in;
    if (v.unreviewed) body.unreviewed = true;
    try {
      await call("POST", "/api/v1/grants", body);
    } catch (e) {
      if (e.code === "tool_unreviewed") $("[data-unreviewed]", form).hidden = false;
      throw e;
    }
    return "/grants";
  };

  // ── what forms do while they are filled in ───────────────────────────────
  for (const box of $$("[data-pick]")) pick(box);
  for (const kind of ["input", "change"]) document.addEventListener(kind, (e) => {
    const form = e.target.form;
    if (!form) return;
    if (form.dataset.form === "mode" && e.target.name !== "mode") showCurrent(form);
    if (form.dataset.form === "capability") fit(form);
    if (form.dataset.form === "grant") showWarnings(form);
  });
  tick();
})();
