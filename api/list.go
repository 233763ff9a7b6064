package api

// List is every list that the API answers.
type List[T any] struct {
	Items       []T    `json:"items" nullable:"false"`
	NextCursor  string `json:"next_cursor,omitempty" doc:"Send it as cursor to get the next page; missing at the end."`
	Total       int    `json:"total" example:"1"`
	TotalCapped bool   `json:"total_capped,omitempty" doc:"There are more items than total."`
}

// Paging is the parameters of every long list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Number of items." kong:"env='-',type='limit',help='Number of items, 1 to 100.'"`
	Cursor string `query:"cursor" doc:"next_cursor of the previous page." kong:"env='-',help='Value of next_cursor from the previous page.'"`
}

// ByAutomationWith is [ByAutomation] with a body.
type ByAutomationWith[B any] struct {
	ByAutomation
	Body B
}

// ByCapabilityWith is [ByCapability] with a body.
type ByCapabilityWith[B any] struct {
	ByCapability
	Body B
}

// ByIDWith is [ByID] with a body.
type ByIDWith[B any] struct {
	ByID
	Body B
}

// ByIDWaitWith is [ByIDWait] with a body.
type ByIDWaitWith[B any] struct {
	ByIDWait
	Body B
}

// ByKeyWith is [ByKey] with a body.
type ByKeyWith[B any] struct {
	ByKey
	Body B
}

// ByNotifyKindWith is [ByNotifyKind] with a body.
type ByNotifyKindWith[B any] struct {
	ByNotifyKind
	Body B
}

// ByPolicyKeyWith is [ByPolicyKey] with a body.
type ByPolicyKeyWith[B any] struct {
	ByPolicyKey
	Body B
}

// ByProviderWith is [ByProvider] with a body.
type ByProviderWith[B any] struct {
	ByProvider
	Body B
}

// ByRefWith is [ByRef] with a body.
type ByRefWith[B any] struct {
	ByRef
	Body B
}

// InSessionWith is [InSession] with a body.
type InSessionWith[B any] struct {
	InSession
	Body B
}

// InSessionByIDWith is [InSessionByID] with a body.
type InSessionByIDWith[B any] struct {
	InSessionByID
	Body B
}
