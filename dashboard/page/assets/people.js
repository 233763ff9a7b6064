"use strict";
// Members, API keys and sign-ins.
(() => {
  const { $, call, showOutput, reloadPart, forms, presses } = sallyport;

  const once = (id, name, text) => {
    showOutput($(id), name, text);
    $(id).focus();
  };

  forms.key = async ({ can, ...v }) => {
    const k = await call("POST", "/api/v1/api-keys", can === "runs" ? { ...v, scope: can } : { ...v, role: can });
    await reloadPart("key-list");
    once("#key-once", "key", k.key);
    return false;
  };
  forms.user = async (v) => { await call("POST", "/api/v1/users", v); return true; };
  forms.role = async ({ user, role }) => { await call("PATCH", "/api/v1/users/" + encodeURIComponent(user), { role }); return true; };

  presses.link = async (button) => once("#link-once", "link", (await call("POST", `/api/v1/users/${encodeURIComponent(button.dataset.user)}/login-link`)).url);
  presses.role = (button) => {
    const form = $("#role-form");
    form.elements.user.value = button.dataset.user;
    form.elements.role.value = button.dataset.role;
    showOutput(form, "name", button.dataset.name);
    form.elements.role.focus();
  };
})();
