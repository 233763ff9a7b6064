package database

import (
	"sallyport/action"
)

// Invalid is bad input in a field.
func Invalid(field, message string) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid", Field: field, Message: message}
}

func ConnectorNotFound(name string) error {
	return action.NewError("connector_not_found", name)
}

func InvocationNotFound(id string) error {
	return action.NewError("invocation_not_found").WithInvocation(id)
}
