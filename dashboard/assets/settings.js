"use strict";
// Where an organization's approvers hear of held calls.
(() => {
  const { $, call, out, forms, presses, ask, nothing } = sallyport;
  const PATH = "/api/v1/notify/";

  const shown = (secret) => {
    out($("#secret-once"), "secret", secret);
    $("#secret-once").focus();
  };

  // The secret is shown beside what is saved: the page comes anew only when
  // there is none.
  forms.webhook = async ({ url, wants, enabled }) => {
    const c = await call("PUT", PATH + "webhook", { url, wants, enabled: enabled === "on" });
    if (!c.secret) return true;
    await sallyport.renew("webhook-channel");
    shown(c.secret);
    return nothing;
  };

  forms.slack = async ({ enabled, ...v }) => { await call("PUT", PATH + "slack", { ...v, enabled: enabled === "on" }); return true; };

  presses.testNotify = async (button) => {
    const box = $("#test-" + button.dataset.kind);
    box.textContent = "Sending…";
    try {
      const a = await call("POST", `${PATH}${button.dataset.kind}/test`);
      box.textContent = (a.ok ? "The test arrived. " : "The test did not arrive. ") + a.detail;
    } catch (e) { box.textContent = e.message; }
  };

  presses.rotateNotify = async () => {
    if (!(await ask("A new secret?", "Requests are signed with both for a day, then with the new one alone.", "Make it"))) return;
    shown((await call("POST", PATH + "webhook/rotate", { keep: "24h" })).secret);
  };
})();
