package action

import "time"

// AuditHead is the last link of an organization's chain of evidence: whoever
// keeps one can later prove that nothing before it was removed.
type AuditHead struct {
	Organization string    `json:"organization_id"`
	Seq          int64     `json:"seq"`  // of the last link; 0: nothing was sealed yet
	Hash         string    `json:"hash"` // of the last link, in hex
	MAC          string    `json:"mac"`  // of the head itself under the audit key, in hex
	At           time.Time `json:"at"`
}

// AuditReport is what a look at an organization's chain found.
type AuditReport struct {
	Organization string       `json:"organization_id"`
	OK           bool         `json:"ok"`
	Checked      int64        `json:"checked"`          // links whose rows were compared
	From         int64        `json:"from_seq"`         // the first link that is kept; those before went with a checkpoint
	Head         AuditHead    `json:"head"`             //
	Unsealed     int64        `json:"unsealed"`         // rows that ended and wait for the sealer
	UnsealedAge  float64      `json:"unsealed_seconds"` // how long the oldest of them has waited
	Faults       []AuditFault `json:"faults"`           // at most 100
	More         bool         `json:"more_faults,omitempty"`
	Note         string       `json:"note,omitempty"` // what could not be looked at, and why
	CheckedAt    time.Time    `json:"checked_at"`
}

// AuditFault is a place where the chain does not hold.
type AuditFault struct {
	// Kind: "altered", "removed", "unchained" (a row that ended and is neither
	// sealed nor waiting), "link", "head", "checkpoint", "cut_off" (links after
	// the ones that are there are missing).
	Kind    string `json:"kind"`
	Seq     int64  `json:"seq,omitempty"`
	Row     string `json:"row,omitempty"` // what the link is of, such as "invocation 0199…"
	Message string `json:"message"`
}
