// Package cloudlogs lets agents read logs: files of JSON lines and what
// journalctl exports, here where the gateway runs.
//
// It promises that params name services and never files; that a query reads a
// bounded time, memory and answer, the newest first, two queries at a time; that
// links in the folder of a pattern lead nowhere else; that a file which cannot be
// read costs no more than its entries, and is told; and that the id of an entry
// leads to that entry or to none.
//
// What a log says is foreign text and is handed on as data. Lines are expected
// in the order of their times, give or take some seconds; what has no time and
// no line with a time before it is counted and left out.
package cloudlogs
