"use strict";
// Connectors and integrations.
(() => {
  const { $, $$, call, notice, remember, ask, forms, presses, nothing, changed, pairs, json, webPage, at, escapeInvisible, page, showError, clearErrors } = sallyport;
  const FAILED = "sallyport-sign-in-failed"; // what is said on the page that comes next

  Object.assign(forms, {
    async connector(v, form) {
      const body = { name: v.name, ...upstream(form) };
      const browser = body.oauth && body.oauth.kind === "authorization_code";
      if (!browser && !v.anyway && !(await checkServer(form, body))) return nothing;
      const c = await placed(form, call("POST", "/api/v1/connectors", { ...body, profile: v.profile }));
      const page = "/connectors/" + c.id; // it is there now, whatever its server says
      if (browser) return signInTo(c.id).then((to) => to || page, (e) => { sessionStorage.setItem(FAILED, e.message); return page; });
      await call("POST", `/api/v1/connectors/${c.id}/validate`).catch(() => {});
      return page;
    },
    async change(v, form) {
      const c = await placed(form, call("PATCH", "/api/v1/connectors/" + form.dataset.connector, { name: v.name, ...upstream(form, true) }));
      if (c.enabled) await call("POST", `/api/v1/connectors/${c.id}/validate`).catch(() => {});
      return true;
    },
    async secret({ key, ...v }) { await call("PUT", "/api/v1/secrets/" + encodeURIComponent(key), v); return true; },
    async connect(v, form) {
      const body = connecting(v, form);
      if (!("browser" in form.dataset)) {
        return connected(await call("POST", "/api/v1/integrations", body));
      }
      const link = await call("POST", "/api/v1/integrations/connect", body);
      const to = webPage(link.url);
      if (!(await ask(`Continue to ${to.host}?`, `To connect, you sign in at ${to.host}. Continue only if you recognize this host.`, "Continue"))) return nothing;
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
    async modes({ to, tools, only_denied: denied, preset }, form) {
      const mode = ["allow", "require_approval", "deny"].includes(to), body = { [mode ? "mode" : "profile"]: to };
      if (tools) body.tools = tools.split(",").map((t) => t.trim()).filter(Boolean);
      if (denied) body.only_denied = true;
      if (preset && !mode) body.preset = preset;
      await call("POST", `/api/v1/connectors/${form.dataset.connector}/profile`, body);
      return true;
    },
    async onboard(v, form) {
      const tools = $$("tr[data-tool]", form).filter((row) => "fresh" in row.dataset || $("select", row).value).map((row) => ({
        tool: row.dataset.tool, behaviour_hash: row.dataset.behaviour, text_hash: row.dataset.text, mode: $("select", row).value || undefined,
      }));
      if (!tools.length) throw new Error("No changes to apply. Choose a mode for at least one tool.");
      await call("POST", `/api/v1/connectors/${form.dataset.connector}/onboard`, { tools });
      return true;
    },
  });

  // connected returns the URL of a new integration, whose page shows a notice.
  function connected(integration) {
    remember(`${escapeInvisible(integration.name)} is connected.`);
    return at(`/integrations/${integration.provider}`, integration.id);
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
    if (!(await ask("Disconnect?", `Disconnect ${name}? Agents lose access, and the stored credential is deleted.`, "Disconnect", "danger"))) return;
    const { revoked } = await call("DELETE", "/api/v1/integrations/" + encodeURIComponent(button.dataset.disconnect));
    if (!revoked) await ask("Disconnected", "The credential could not be revoked at the service. If it is still valid, revoke it there.", "OK");
    location.reload();
  }

  // ── connectors ───────────────────────────────────────────────────────────
  // upstream reads the fields of a connector form: all filled fields of a new connector,
  // only the changed ones of an existing one.
  function upstream(form, existing) {
    const field = (name) => form.elements[name];
    const said = (name) => field(name) && (existing ? changed(field(name)) : field(name).value !== "");
    const body = {}, auth = field("auth").value;
    for (const name of ["preset", "variant", "url", "slug", "review", "default_risk", "protocol"]) if (said(name)) body[name] = field(name).value;
    const boxes = $$("[name=may_ask]", form);
    if (boxes.some(changed)) body.may_ask = boxes.filter((b) => b.checked).map((b) => b.value);
    if (changed(field("per_agent"))) body.per_agent = field("per_agent").checked;
    if (said("headers")) body.headers = pairs(field("headers").value);
    if (auth === "secret") {
      for (const name of ["header", "prefix"]) if (said(name)) body[name] = field(name).value;
      if (field("secret").value) body.secret = field("secret").value;
      else if (field("secret_value").value) body.secret_value = field("secret_value").value;
    }
    if (existing && auth !== "secret" && changed(field("auth"))) body.secret = "";
    if (auth === "authorization_code" || auth === "client_credentials") body.oauth = oauth(field, auth);
    else if (existing && changed(field("auth"))) body.oauth = { kind: "none" };
    return body;
  }

  function oauth(field, kind) {
    const o = { kind };
    for (const name of ["client_id", "client_secret", "issuer"]) if (field(name).value) o[name] = field(name).value;
    const scopes = field("scopes").value.split(/\s+/).filter(Boolean);
    return scopes.length ? { ...o, scopes } : o;
  }

  // fit shows the fields of the chosen authentication method.
  function fit(form) {
    const auth = form.elements.auth.value;
    for (const group of $$("[data-auth]", form)) group.hidden = group.dataset.auth !== (auth === "secret" ? "secret" : auth === "none" ? "" : "oauth");
    offerSecrets(form);
  }

  // isFor reports whether a stored secret is bound to the host of the URL.
  function isFor(option, url) {
    try {
      const { host, protocol } = new URL(url);
      return new URL(`${protocol}//${option.dataset.host}`).host === host;
    } catch { return false; } // incomplete
  }

  // offerSecrets offers the stored secrets of the host instead of a new value. The host of
  // the token endpoint is not known yet, so those of other hosts follow.
  function offerSecrets(form) {
    const { url, issuer, secret, client_secret: client } = form.elements, at = url.value || (url.required ? "" : url.placeholder);
    const stored = $$("[data-host]", secret);
    for (const o of stored) o.hidden = o.disabled = !isFor(o, at);
    if (secret.selectedOptions[0]?.disabled) secret.value = "";
    $("[data-stored]", form).hidden = !stored.some((o) => !o.disabled);
    $("[data-new]", form).hidden = !!secret.value;
    const [own, others] = $$("optgroup", client), chosen = client.value;
    for (const o of $$("[data-host]", client)) (isFor(o, issuer.value) || isFor(o, at) ? own : others).append(o);
    for (const group of [own, others]) group.hidden = !group.children.length;
    client.value = chosen;
  }

  // applyVariant shows the default URL and authentication of a preset variant.
  function applyVariant(form) {
    const { url, auth } = form.elements.variant.selectedOptions[0].dataset;
    form.elements.url.placeholder = url;
    form.elements.auth.value = auth;
    fit(form);
  }

  // field maps the JSON Pointer of an error to a form field.
  function field(form, pointer = "") {
    const [, name, part] = pointer.split("/");
    if (name === "oauth") return "/" + (part && form.elements[part] ? part : "auth");
    if (name === "secret" || name === "secret_value") return form.elements.auth.value !== "secret" ? "/auth" : form.elements.secret.value ? "/secret" : "/secret_value";
    return pointer;
  }

  const placed = (form, answer) => answer.catch((e) => { throw Object.assign(e, { field: field(form, e.field) }); });

  // checkServer checks the server of a form and shows the result.
  async function checkServer(form, { slug, ...body }) {
    const box = $("[data-tried]", form), v = await placed(form, call("POST", "/api/v1/connectors/validate", body));
    const fault = v.diagnosis || (v.error && { message: v.error });
    showCheck(box, v);
    if (!fault) return true;
    $("[data-anyway]", form).hidden = false;
    showError(form, { field: field(form, fault.field), message: escapeInvisible(fault.message) });
    return false;
  }

  // showCheck shows the result of a check. Text from the server is inserted as text, with
  // control characters escaped.
  function showCheck(box, v) {
    const line = (tag, text, kind) => { const e = document.createElement(tag); e.textContent = text; if (kind) e.className = kind; return e; };
    const out = [];
    if (v.diagnosis || v.error) out.push(line("p", "Connection failed" + (v.diagnosis ? ": " + v.diagnosis.code : "") + ".", "warn"));
    else out.push(line("p", `Connected${v.protocol_version ? " with MCP " + escapeInvisible(v.protocol_version) : ""}: ${["tool", "resource", "template", "prompt"].map((w) => `${v[w + "_count"]} ${w}${v[w + "_count"] === 1 ? "" : "s"}`).join(", ")}.`));
    if (v.modes) out.push(line("p", `With the profile ask: ${v.modes.allow} allowed, ${v.modes.require_approval} ask, ${v.modes.deny} denied.`));
    const shared = v.shared_state ? [v.shared_state + " To do so, select Separate MCP session for each agent under Advanced."] : [];
    for (const w of [...v.warnings, ...shared]) out.push(line("p", escapeInvisible(w), "warn"));
    const steps = (v.steps || []).map((x) => `${x.name} ${x.took_ms ? x.took_ms.toFixed(1) + " ms" : "skipped"}${x.failed ? ", failed" : ""}`);
    if (steps.length) out.push(line("p", escapeInvisible(steps.join(" · ")), "hint"));
    if (v.tools && v.tools.length) {
      const list = line("details", ""), ul = document.createElement("ul");
      list.append(line("summary", "Tools and risks"), ul);
      for (const t of v.tools.slice(0, 500)) ul.append(line("li", `${escapeInvisible(t.name)} · ${t.risk}`));
      out.push(list);
    }
    box.replaceChildren(...out);
    box.hidden = false;
  }

  async function checkOnly(button) {
    const form = button.form;
    clearErrors(form);
    try { await checkServer(form, upstream(form)); } catch (e) { $("[data-tried]", form).hidden = true; showError(form, e); }
  }

  // signInTo returns the authorization URL of a connector, or null if the user declines:
  // the URL comes from the connector's server and is not trusted.
  async function signInTo(id) {
    const link = await call("POST", `/api/v1/connectors/${encodeURIComponent(id)}/sign-in`);
    const to = webPage(link.authorize_url);
    const whose = link.issuer ? ` (authorization server ${escapeInvisible(link.issuer)})` : "";
    const sure = link.known || await ask(`Sign in at ${to.host}?`, `The server of this connector redirects you to ${to.host}${whose}. Continue only if you recognize this host, because the page may ask for your password.`, "Continue");
    return sure ? to.href : null;
  }

  // signInFailed shows why a sign-in could not start.
  function signInFailed(text) {
    const box = $("#sign-in-error");
    if (!box) { notice(text); return; }
    box.textContent = text;
    box.hidden = false;
    box.scrollIntoView({ block: "nearest" });
  }

  // finishSignIn reads the parameters of the redirect and removes them from the URL.
  async function finishSignIn() {
    const say = (text) => { $("#callback-state").textContent = text; };
    const q = new URLSearchParams(location.search);
    history.replaceState(null, "", location.pathname);
    const body = {}, provider = location.pathname.split("/")[3]; // none: of a connector
    if (provider) body.provider = decodeURIComponent(provider);
    for (const name of ["state", "code", "iss", "error", "installation_id", "setup_action", "connection_id"]) if (q.get(name)) body[name] = q.get(name);
    if (body.setup_action === "request") { say("The app installation was requested and must be approved by an owner of the GitHub account. After that, connect GitHub here again."); return; }
    if (!body.state && body.installation_id) { say("The app was installed or changed at GitHub, but not from Sallyport, so nothing was connected. To connect it, open Integrations → GitHub and connect with an app installation."); return; }
    if (!body.state) { say("Nothing to finish. Start from the connector (Sign in) or the integration (Connect)."); return; }
    try {
      const c = await call("POST", "/api/v1/oauth/finish", body);
      if (c.of === "integration") { location.replace(connected(c.integration)); return; }
      remember(`${escapeInvisible(c.name)} is connected.`);
      location.replace("/connectors/" + encodeURIComponent(c.id));
    } catch (e) {
      say(e.status === 401 ? "You are not signed in to Sallyport, so nothing was connected. Sign in, then connect the service again." : e.message);
    }
  }

  async function startSignIn(button) {
    try {
      const to = await signInTo(button.dataset.signIn);
      if (to) location.assign(to);
    } catch (e) { signInFailed(e.message); }
  }

  // review marks tools as reviewed in the version shown. A removed tool has no hashes and
  // is dismissed.
  async function review(connector, rows) {
    const tools = rows.map(({ dataset: { tool, behaviour, text } }) => ({ tool, behaviour_hash: behaviour, text_hash: text }));
    await call("POST", `/api/v1/connectors/${encodeURIComponent(connector)}/review`, { tools });
    location.reload();
  }

  function reviewOne(button) {
    const row = button.closest("tr");
    return review(row.closest("table").dataset.connector, [row]);
  }

  async function reviewAll(button) {
    const connector = button.dataset.reviewAll, rows = $$(`table[data-connector="${CSS.escape(connector)}"] tr[data-tool]`);
    if (await ask("Mark all as reviewed?", `Confirm that you reviewed the ${rows.length} tools shown and their changes.`, "Mark as reviewed")) await review(connector, rows);
  }

  Object.assign(presses, { signIn: startSignIn, try: checkOnly, disconnect, review: reviewOne, reviewAll });

  document.addEventListener("change", (e) => {
    const hint = e.target.name && e.target.form && $(`small[data-says="${e.target.name}"]`, e.target.form);
    if (hint) hint.textContent = e.target.selectedOptions[0].dataset.says;
    const form = e.target.form;
    if (!form || !form.elements.auth) return;
    if (e.target.name === "variant") applyVariant(form);
    else fit(form);
  });
  for (const form of $$("form[data-form=connector], form[data-form=change]")) {
    fit(form);
    if (form.dataset.fault) showError(form, { field: field(form, form.dataset.fault), message: form.dataset.faultText }, false);
  }

  if (page === "callback") finishSignIn();
  if ($("#sign-in-error") && sessionStorage.getItem(FAILED)) {
    signInFailed(sessionStorage.getItem(FAILED));
    sessionStorage.removeItem(FAILED);
  }
})();
