// Package cloudlogs lets agents read logs on the gateway's host: files of JSON
// lines and journal exports of journalctl.
//
// Params name services, never files. A query is bounded in time range, memory
// and result, runs newest first, and at most two run at once. Symbolic links in
// the directory of a pattern cannot point elsewhere. An unreadable file is
// skipped and counted. The ID of an entry resolves to that entry or to none.
//
// Log content is untrusted and is returned as data. Lines are expected in order
// of time, within a few seconds. A line without a timestamp takes that of the
// line before; without one, it is counted and skipped.
package cloudlogs
