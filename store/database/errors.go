package database

import (
	"sallyport/action"
)

// Invalid returns the error for invalid input in a field.
func Invalid(field, message string) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid", Field: field, Message: message}
}

// ConnectorNotFound returns the error for an unknown connector.
func ConnectorNotFound(name string) error {
	return action.NewError("connector_not_found", name)
}

// InvocationNotFound returns the error for an unknown invocation.
func InvocationNotFound(id string) error {
	return action.NewError("invocation_not_found").WithInvocation(id)
}
