package mcpserver

// kind is a kind of list.
type kind int

// The kinds of list, in the order in which their changes are told.
const (
	kindTools kind = iota
	kindPrompts
	kindResources // with the templates
	kinds
)

// versions are those of a session's lists; empty ones are not known.
type versions [kinds]string

// changed is the method by which a change is told, and filter the member of
// subscriptions/listen that asks for it.
func (k kind) changed() string {
	return [kinds]string{"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"}[k]
}

func (k kind) filter() string {
	return [kinds]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}[k]
}

// announced are the kinds of list whose changes clients are told of.
func (o offered) announced() (wants [kinds]bool) {
	for k := range kinds {
		wants[k] = o.announces(k)
	}
	return wants
}

// announces reports whether clients are told that the list may change.
func (o offered) announces(k kind) bool {
	return [kinds]bool{true, o.prompts, o.changes}[k]
}
