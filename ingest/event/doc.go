// Package event has the types of inbound work: what services deliver, the
// events in it, and the triggers, schedules and runs that use them. Modules
// use them to declare their triggers; everything here is pure.
//
// A delivery is verified on its raw bytes before anything of it is parsed.
// Parsed data is untrusted: it contains no URL to follow and no instruction.
package event
