package action

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// AuditHead is the last link of an organization's audit log. A copy stored
// elsewhere later proves that nothing before it was removed.
type AuditHead struct {
	Organization string    `json:"organization_id"`
	Seq          int64     `json:"seq"`  // of the last link; 0: nothing was sealed yet
	Hash         string    `json:"hash"` // of the last link, in hex
	MAC          string    `json:"mac"`  // of the head itself under the audit key, in hex
	At           time.Time `json:"at"`
}

// AuditReport is the result of verifying an organization's audit log.
type AuditReport struct {
	Organization string       `json:"organization_id"`
	OK           bool         `json:"ok"`
	Checked      int64        `json:"checked"`          // links whose rows were compared
	From         int64        `json:"from_seq"`         // the first stored link; earlier ones were replaced by a checkpoint
	Head         AuditHead    `json:"head"`             //
	Unsealed     int64        `json:"unsealed"`         // ended rows that are not sealed yet
	UnsealedAge  float64      `json:"unsealed_seconds"` // age of the oldest of them
	Faults       []AuditFault `json:"faults"`           // at most 100
	More         bool         `json:"more_faults,omitempty"`
	Note         string       `json:"note,omitempty"` // what could not be verified, and why
	CheckedAt    time.Time    `json:"checked_at"`
}

// AuditFault is a place where the audit log is broken.
type AuditFault struct {
	// Kind: "altered", "removed", "unchained" (a row that ended and is neither
	// sealed nor waiting), "link", "head", "checkpoint", "cut_off" (links after
	// the ones that are there are missing).
	Kind    string `json:"kind"`
	Seq     int64  `json:"seq,omitempty"`
	Row     string `json:"row,omitempty"` // row of the link, such as "invocation 0199…"
	Message string `json:"message"`
}

// Evidence is the audit status of an invocation's row.
type Evidence struct {
	Digest      string     // of the current row, in hex
	Seq         int64      // its link in the organization's audit log; zero: not sealed yet
	SealedAt    *time.Time // nil: not sealed yet
	Changed     bool       // the row differs from what was sealed
	DeliveredAt *time.Time // when its caller received the result; nil: not confirmed
}

// Event is an event of an invocation other than a change of status. Events
// are append-only.
type Event struct {
	ID           string          `json:"-"` // empty: a new one
	Organization string          `json:"-"`
	Invocation   string          `json:"-"`
	Kind         string          `json:"kind" example:"late_outcome" doc:"late_outcome: the result of an execution after the gateway gave it up; params_revealed: a person read the full params; asked: questions of the source to the caller, with the answers."`
	By           string          `json:"by,omitempty" doc:"The user who did it."`
	At           time.Time       `json:"at"`
	Data         json.RawMessage `json:"data" doc:"Redacted."` // empty: {}
}

// The kinds of event of an invocation.
const (
	LateOutcome    = "late_outcome"    // the result of an execution after the gateway gave it up
	ParamsRevealed = "params_revealed" // a person read the full params of a held call
	SourceAsked    = "asked"           // questions of the source to its caller, with the replies
)

// Limits of uploaded evidence.
const (
	MaxUploadFiles        = 100       // in one upload
	MaxUploadFile         = 25 << 20  // bytes of one file
	MaxUploadBytes        = 100 << 20 // bytes of all files of one upload
	MaxSessionUploadBytes = 500 << 20 // bytes of all uploads of one session
	MaxUploads            = 200       // of one session
	maxUploadName         = 300       // bytes
)

// Upload is a set of files that a session uploaded as evidence. Once sealed,
// it does not change.
type Upload struct {
	ID           string       `json:"id"`
	Organization string       `json:"organization_id"`
	Session      string       `json:"session_id"`
	Folder       string       `json:"folder,omitempty" doc:"The sandbox, as named by the agent."`
	Prefix       string       `json:"prefix" doc:"Prefix of its files in the storage."`
	Manifest     string       `json:"manifest_sha256,omitempty" doc:"SHA-256 of the names, sizes and digests of all files, as sha256sum prints them; present once it is sealed."`
	Files        []UploadFile `json:"files,omitempty"`
	Count        int          `json:"file_count"`
	Bytes        int64        `json:"bytes"`
	CreatedAt    time.Time    `json:"created_at"`
	SealedAt     *time.Time   `json:"sealed_at,omitempty" doc:"Missing: the upload is still open or was abandoned."`
}

// UploadRef identifies an upload of a session.
type UploadRef struct{ Organization, Session, ID string }

// UploadFile is one file of an upload.
type UploadFile struct {
	Name     string     `json:"name" doc:"Path in the folder, with slashes."`
	Size     int64      `json:"size" doc:"In bytes."`
	SHA256   string     `json:"sha256" doc:"In hex."`
	Type     string     `json:"content_type" doc:"Guessed from the name alone."`
	StoredAt *time.Time `json:"stored_at,omitempty" doc:"Missing: the content has not arrived yet."`
}

// UploadPrefix returns the prefix of an upload's files in the store.
func UploadPrefix(organization, session, upload string) string {
	return organization + "/" + session + "/" + upload + "/"
}

// Check validates the file. It returns ErrInvalid or ErrTooLarge.
func (f *UploadFile) Check() error {
	if err := CheckUploadName(f.Name); err != nil {
		return err
	}
	if f.Size < 0 || len(f.SHA256) != 64 || strings.Trim(f.SHA256, "0123456789abcdef") != "" {
		return NewError("invalid_file")
	}
	if f.Size > MaxUploadFile {
		return NewError("file_too_large", MaxUploadFile>>20)
	}
	return nil
}

// CheckUploadName refuses names that leave the folder or cannot be displayed,
// with ErrInvalid.
func CheckUploadName(name string) error {
	bad := func(why string) error {
		return &Error{Kind: ErrInvalid, Code: "invalid_name", Field: "/name", Message: "The name of a file " + why + "; rename it."}
	}
	switch {
	case name == "" || len(name) > maxUploadName:
		return bad(fmt.Sprintf("has 1 to %d bytes", maxUploadName))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return bad("is text without control characters")
	case strings.Contains(name, `\`) || strings.HasPrefix(name, "/") || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		return bad("is a path within the folder: no / first, no part that is empty, . or .., no backslash")
	}
	return nil
}

// ValidUploadID reports whether id is a UUID, as agents choose for uploads.
func ValidUploadID(id string) bool {
	return len(id) == 36 && strings.Trim(id, "0123456789abcdef-") == ""
}

// GuessType returns the media type for a file name's extension. The operating
// system's table is not used, so that all instances agree.
func GuessType(name string) string {
	types := map[string]string{
		".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".svg": "image/svg+xml",
		".txt": "text/plain", ".log": "text/plain", ".md": "text/markdown", ".csv": "text/csv", ".html": "text/html", ".xml": "application/xml",
		".json": "application/json", ".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip",
		".mp4": "video/mp4", ".webm": "video/webm",
	}
	if t, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return "application/octet-stream"
}

// Period is a time that calls are counted in. From and To are whole multiples
// of Width since 1970, in UTC.
type Period struct {
	From, To time.Time // created in this time: From is part of it, To is not
	Width    time.Duration
}

// Statistics is what the rows of an organization say of its calls in a period.
type Statistics struct {
	From  time.Time `json:"from" doc:"Start of the period."`
	To    time.Time `json:"to" doc:"End: the end of the current bucket."`
	Width int       `json:"bucket_seconds" doc:"Length of a bucket. Buckets start at multiples of it since 1970, UTC." example:"1800"`

	Calls        Extent        `json:"calls" doc:"Totals of buckets, actions and sources."`
	Buckets      []Bucket      `json:"buckets" nullable:"false" doc:"Calls by mode over time, oldest first, from the first counted one."`
	Actions      []ActionCount `json:"actions" nullable:"false" doc:"Most called first; at most 20."`
	OtherActions int           `json:"other_actions,omitempty" doc:"Number of items with calls that are not listed."`
	Sources      []SourceCount `json:"sources" nullable:"false" doc:"Those with the most calls first; at most 50."`
	OtherSources int           `json:"other_sources,omitempty" doc:"Number of items with calls that are not listed."`

	Held   Holds   `json:"held" doc:"Calls that needed approval."`
	Denied Denials `json:"denied" doc:"Calls denied by policy or a person."`
	Queues Queues  `json:"queues" doc:"Pending and executing calls, whenever they were created."`
}

// Extent is how many calls were looked at, the newest ones first.
type Extent struct {
	Count  int       `json:"count" doc:"Number of counted calls." example:"1204"`
	Since  time.Time `json:"since" doc:"Start of the counted time: of the period, or if capped, the oldest counted call."`
	Capped bool      `json:"capped,omitempty" doc:"The period has older calls that are not counted."`
}

// Bucket is the calls of one part of a period, by what policy said of them.
type Bucket struct {
	At              time.Time `json:"at" doc:"Start."`
	Allow           int       `json:"allow" doc:"Calls allowed by policy or a grant."`
	RequireApproval int       `json:"require_approval" doc:"Calls that needed approval."`
	Deny            int       `json:"deny" doc:"Calls that policy denied."`
}

// ActionCount is the calls of one action.
type ActionCount struct {
	Source     string `json:"source_id" example:"connector:5b0c1e2d-3f4a-4b5c-8d6e-7f8091a2b3c4"`
	SourceName string `json:"source_name" doc:"As of the newest call." example:"GitHub"`
	Action     string `json:"action" example:"create_issue"`
	Risk       Risk   `json:"risk" doc:"As of the newest call."`
	Calls      int    `json:"calls"`
	Failed     int    `json:"failed"`
	Denied     int    `json:"denied"`
}

// SourceCount is the calls of one source, and how long those took that ran.
type SourceCount struct {
	Source       string     `json:"source_id" example:"connector:5b0c1e2d-3f4a-4b5c-8d6e-7f8091a2b3c4"`
	SourceName   string     `json:"source_name" doc:"As of the newest call." example:"GitHub"`
	Calls        int        `json:"calls"`
	Ran          int        `json:"ran" doc:"Finished executions with a known duration."`
	Failed       int        `json:"failed"`
	P50MS        *int64     `json:"p50_ms,omitempty" doc:"Median duration; missing: none ran." example:"120"`
	P95MS        *int64     `json:"p95_ms,omitempty" doc:"95th percentile of the duration." example:"900"`
	LastFailedAt *time.Time `json:"last_failed_at,omitempty" doc:"Missing: none failed."`
}

// Holds is what became of held calls, and how long they waited for a person.
type Holds struct {
	Extent
	Waiting   int    `json:"waiting" doc:"Still pending."`
	Approved  int    `json:"approved" doc:"Approved by a person, whatever the result."`
	Denied    int    `json:"denied" doc:"Denied by a person."`
	Expired   int    `json:"expired" doc:"Expired."`
	Withdrawn int    `json:"withdrawn" doc:"Withdrawn."`
	Refused   int    `json:"refused" doc:"Refused without asking anyone."`
	P50MS     *int64 `json:"p50_ms,omitempty" doc:"Median wait of decided calls; missing: none was decided." example:"21000"`
	P90MS     *int64 `json:"p90_ms,omitempty" doc:"90th percentile of the wait." example:"95000"`
	Bins      []Bin  `json:"bins" nullable:"false" doc:"Histogram of the time to a decision, shortest first."`
}

// Bin is how many waits were in one part of all that may be.
type Bin struct {
	UpToMS int64 `json:"up_to_ms,omitempty" doc:"Upper bound of the bin; the lower bound is that of the previous bin. Missing: no upper bound." example:"60000"`
	Calls  int   `json:"calls"`
}

// Denials is why calls were denied.
type Denials struct {
	Extent
	Reasons []DenialCount `json:"reasons" nullable:"false" doc:"Most frequent first."`
}

// DenialCount is the calls that were denied for one reason.
type DenialCount struct {
	Reason string `json:"denied_reason" example:"policy"`
	Layer  Layer  `json:"mode_source,omitempty" doc:"For a denial by policy: the layer that denied."`
	Calls  int    `json:"calls"`
}

// Queues is how many calls, runs and deliveries wait or run now.
type Queues struct {
	Pending    Depth `json:"pending" doc:"Pending calls."`
	Approved   Depth `json:"approved" doc:"Approved calls that have not started."`
	Executing  Depth `json:"executing" doc:"Executing calls."`
	Runs       Depth `json:"runs_queued" doc:"Queued runs."`
	Deliveries Depth `json:"deliveries_waiting" doc:"Deliveries that have not been processed."`
	Outbox     Depth `json:"outbox_waiting" doc:"Runs waiting for the endpoint or a worker."`
}

// Depth is how many of something wait.
type Depth struct {
	Count  int  `json:"count"`
	Capped bool `json:"capped,omitempty" doc:"Counting stopped at this number: there may be more."`
}
