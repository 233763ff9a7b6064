package api

import (
	"sallyport/action"
)

// Routes.
var (
	PutEvidence = Route[EvidenceFile, action.UploadFile]{Operation{
		Method: "PUT", Path: "/api/v1/sessions/{session}/evidence/{upload}/{name}", Who: Agent, Tag: "evidence", Status: 200, Errors: []int{409, 413, 429, 502},
		Summary: "Send a file as evidence",
		Doc:     "The body is the file's bytes, with Content-Length. The first file makes the upload, whose id the agent chooses. The same bytes again are no mistake; other bytes under the same name are a conflict. The tool verify seals the upload; one that is not sealed within 25 hours of its last file is removed. One sender sends a file, and a session four files at a time; 429 says when to try again.",
	}}
	ListEvidence = Route[ListEvidenceInput, List[action.Upload]]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/evidence", Who: Audience, Tag: "evidence",
		Summary: "List what the session sent as evidence, newest first",
	}}
	GetEvidence = Route[GetEvidenceInput, action.Upload]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/evidence/{upload}", Who: Audience, Tag: "evidence",
		Summary: "Read one upload with its files",
	}}
	GetEvidenceFile = Route[InUpload, None]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/evidence/{upload}/{name}", Who: Audience, Tag: "evidence", Errors: []int{502},
		Summary: "Fetch a file of evidence",
		Doc:     "Always as an attachment of type application/octet-stream, whatever it is: an agent made it.",
	}}
)

// InUpload is the parameters of a route about a file of an upload.
type InUpload struct {
	InSession
	Upload string `path:"upload" doc:"A UUID in lower case, which the agent makes." example:"0199a3c6-9999-7000-8000-0123456789ab"`
	Name   string `path:"name" doc:"The file's path in the folder; / is written %2F." example:"test-report.txt"`
}

// ListEvidenceInput is the input of [ListEvidence].
type ListEvidenceInput struct {
	InSession
	Paging
}

// GetEvidenceInput is the input of [GetEvidence].
type GetEvidenceInput struct {
	InSession
	Upload string `path:"upload"`
}

// EvidenceFile is a file of an upload; its bytes are the body, which is read as
// it arrives.
type EvidenceFile struct {
	InUpload
	SHA256 string `header:"X-Content-Sha256" required:"true" doc:"Of the bytes, in hex." example:"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`
}
