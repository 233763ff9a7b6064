"use strict";
// Workspaces and their variables.
(() => {
  const { call, forms, remember } = sallyport;

  forms.workspace = async ({ name, repository }) => {
    const body = { repositories: repository ? [repository] : [] };
    if (name) body.name = name;
    const w = await call("POST", "/api/v1/workspaces", body);
    remember("Workspace created");
    return "/workspaces/" + w.id;
  };
  forms.variable = async ({ name, ...v }) => { await call("PUT", "/api/v1/variables/" + encodeURIComponent(name), v); return true; };
})();
