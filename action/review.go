package action

import (
	"encoding/json"
	"time"
)

// ReviewRule says what of a connector's tools a person must have looked at.
type ReviewRule string

// The rules, mildest first. Of an unreviewed or changed tool every call needs
// at least an approval.
const (
	// ReviewTrust takes the first list as reviewed. A changed text is shown,
	// and is no drift.
	ReviewTrust ReviewRule = "trust"
	// ReviewStrict takes the first list as reviewed, and a changed text as
	// drift.
	ReviewStrict ReviewRule = "strict"
	// ReviewRequired takes nothing as reviewed, and denies every call of a
	// tool that is not, or that changed, text included.
	ReviewRequired ReviewRule = "required"
)

// Valid reports whether r is one of the three rules.
func (r ReviewRule) Valid() bool {
	return r == ReviewTrust || r == ReviewStrict || r == ReviewRequired
}

// Texts reports whether a tool's texts count.
func (r ReviewRule) Texts() bool { return r == ReviewStrict || r == ReviewRequired }

// ToolHashes are the hashes of a tool's definition.
type ToolHashes struct {
	Behaviour string `json:"behaviour_hash"` // name, schemas without texts, annotations
	Text      string `json:"text_hash"`      // all that the first leaves out
}

// ToolVersion is a tool as a connector listed it.
type ToolVersion struct {
	ToolHashes
	Risk       Risk            `json:"risk"`       // that it counted with
	Definition json.RawMessage `json:"definition"` // foreign, untrusted; the bytes of the list
}

// ReviewState is where a tool stands between its connector and the reviewer.
type ReviewState string

// The states.
const (
	ToolNew      ReviewState = "new"      // never reviewed
	ToolReviewed ReviewState = "reviewed" // as it was reviewed
	ToolChanged  ReviewState = "changed"  // other than it was reviewed, in behaviour or text
	ToolRemoved  ReviewState = "removed"  // not listed any more
)

// ToolReview is what is known of one tool of a connector.
type ToolReview struct {
	Organization string       `json:"-"`
	Connector    string       `json:"connector_id"`
	Tool         string       `json:"tool"` // the name at its server
	State        ReviewState  `json:"state"`
	Reviewed     *ToolVersion `json:"reviewed,omitempty"`    // nil: never, or not since a reset
	Current      *ToolVersion `json:"current,omitempty"`     // nil: it is not listed
	ReviewedBy   string       `json:"reviewed_by,omitempty"` // a user; "first list" when nobody was asked
	ReviewedAt   *time.Time   `json:"reviewed_at,omitempty"`
	SeenAt       time.Time    `json:"seen_at"` // first listed as it is now
}
