// Package sources knows where actions come from. A [Source] lists tools and
// runs them; the [Catalog] gathers the sources of each organization, compiles
// their tools to actions and keeps them.
//
// It promises: what a source listed reaches agents unchanged but for the name or
// URI; what cannot be used is left out with a warning, and
// nothing a source lists panics or hangs the gateway; a source that fails
// keeps its last good list, and one that never answered shows an error rather
// than an empty list; what a connector lists is told to [Config.Observe] before
// anybody sees it; names of tools and prompts and the URIs of resources are
// unique in an organization and the same on every instance; a source that says
// again and again that it changed costs a bounded number of requests; nothing is
// shared between organizations.
//
// Resources, templates and prompts are not actions but lists beside them, see
// [Catalog.Offerings]: they are read and gotten by two actions of each source
// that has them, which are the gateway's own code and no tools.
//
// A [Module] is a service that the gateway itself speaks to. Its actions are in
// the catalog of every organization, connected or not, and are compiled like the
// tools of a server. For which integration a call is, and with what credential,
// is found out when it runs; what a service refuses is an answer, in which the
// credential is not.
//
// It decides nothing: policy is asked elsewhere, and only the Gate runs an
// action.
package sources
