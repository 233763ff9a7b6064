package api

import (
	"sallyport/action"
	"sallyport/ingest/event"
)

// Routes.
var (
	PutSecret = Route[ByKeyWith[NewSecret], action.Secret]{Operation{
		Method: "PUT", Path: "/api/v1/secrets/{key}", Who: Decider, Tag: "secrets", Status: 200,
		Summary: "Set a secret",
		Doc:     "Stores the value encrypted and bound to the host: a connector of another host cannot use it. It cannot be read back.",
	}}
	ListSecrets = Route[None, List[action.Secret]]{Operation{
		Method: "GET", Path: "/api/v1/secrets", Who: Member, Tag: "secrets",
		Summary: "List secrets without their values",
	}}
	DeleteSecret = Route[ByKey, None]{Operation{
		Method: "DELETE", Path: "/api/v1/secrets/{key}", Who: Decider, Tag: "secrets", Errors: []int{409},
		Summary: "Delete a secret",
	}}
	RotateMasterKey = Route[None, Rotated]{Operation{
		Method: "POST", Path: "/api/v1/secrets/rotate", Who: Owner, Tag: "secrets", Status: 200, Errors: []int{409},
		Summary: "Rotate the master key",
		Doc:     "Encrypts all encrypted values of all organizations again with a new master key: a generated one if the key is in the data folder, otherwise the one that the operator has set. Repeat it after an interruption; it continues.",
	}}
)

// NewSecret is a secret to set. Its value cannot be read back.
type NewSecret struct {
	Value string `json:"value" minLength:"1" maxLength:"16384" writeOnly:"true" example:"ghp_…" kong:"-"`
	Host  string `json:"host" minLength:"1" maxLength:"255" doc:"The only host, with its port if it is not the default, that may receive it." example:"api.example.com" kong:"required,help='Host, with a port if any, that may receive the secret; write an IPv6 address with a port in [].'"`
}

// Rotated is the result of a rotation of the master key.
type Rotated struct {
	KeyID    string `json:"key_id" doc:"ID of the current key; it reveals nothing about the key." example:"72cd6e8422c407fb"`
	Resealed int    `json:"resealed" doc:"Values encrypted again."`
	Left     int    `json:"left" doc:"Values that no key opens. While there are any, the old key is kept."`
}

// ByKey is the parameter of an operation on one secret.
type ByKey struct {
	Key string `path:"key" maxLength:"64" example:"github" kong:"arg,help='Name of the secret.'"`
}

// Rotation replaces a signing secret.
type Rotation struct {
	Secret string `json:"secret,omitempty" writeOnly:"true" minLength:"16" maxLength:"512" doc:"For services that issue the secret; missing: generated and returned." kong:"-"`
	Keep   string `json:"keep,omitempty" maxLength:"40" doc:"How long the previous secrets stay valid: a duration up to 720h; default 24h. 0s: not at all." example:"24h" kong:"type='period',placeholder='D',help='How long the previous secrets stay valid; 0s to end them now (default: 24h).'"`
}

// MintedSecret is a new secret, shown once.
type MintedSecret struct {
	Secret string `json:"secret,omitempty" doc:"Shown once; missing if you sent it." example:"whsec_…"`
}

// SigningSecret is a signing secret without its value.
type SigningSecret event.Secret
