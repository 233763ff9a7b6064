// Package notify tells approvers elsewhere that calls wait for them: by a signed
// webhook, and by a message in Slack, as their organization chose. So it does of
// agents' requests for environment variables, which wait for a person, too.
//
// It promises that each held call is told of at least once while it waits, as
// long as the endpoint takes it, and with one id however often; that nothing is
// sent of a call that ended before; that of all processes that share rows one
// at a time sends by a channel; and that what leaves is who asks for what, never
// a param, a result, a value of a variable or a secret, with texts of agents and services so written
// that they are text there, too.
//
// It does not slow calls down: what there is to tell it finds in the rows by
// itself, and an endpoint that does not answer only holds up its own channel.
package notify
