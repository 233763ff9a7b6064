// Package sources provides actions. A [Source] lists tools and runs them; the
// [Catalog] collects the sources of each organization, compiles their tools to
// actions and caches them.
//
// It guarantees: what a source lists reaches agents unchanged except for the
// name or URI; unusable items are left out with a warning, and nothing that a
// source lists makes the gateway panic or hang; a failing source keeps its last
// good list, and one that never answered shows an error rather than an empty
// list; [Config.Observe] records what a connector lists before any agent sees
// it; names of tools and prompts and the URIs of resources are unique in an
// organization and the same on every instance; a source that keeps announcing
// changes costs a bounded number of requests; organizations share nothing.
//
// Resources, templates and prompts are not actions but lists of their own, see
// [Catalog.Offerings]. They are read through two actions of each source that
// has them; these two are the gateway's own code and are not tools.
//
// A [Module] is a service with built-in support. Its actions are in the catalog
// of every organization, connected or not, and are compiled like the tools of a
// server. The integration and the credential of a call are determined when it
// runs. A refusal of the service is a result, from which the credential is
// redacted.
//
// It makes no policy decisions, and only the Gate runs an action.
package sources
