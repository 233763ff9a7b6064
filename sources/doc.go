// Package sources knows where actions come from. A [Source] lists tools and
// runs them; the [Catalog] gathers the sources of each organization, compiles
// their tools to actions and keeps them.
//
// It promises: what a source listed reaches agents unchanged but for the
// tool's name; a tool that cannot be used is dropped with a warning, and
// nothing a source lists panics or hangs the gateway; a source that fails
// keeps its last good list, and one that never answered shows an error rather
// than an empty list; what a connector lists is told to [Config.Observe] before
// anybody sees it; names of tools are unique in an organization and the same on
// every instance; nothing is shared between organizations.
//
// It decides nothing: policy is asked elsewhere, and only the Gate runs an
// action.
package sources
