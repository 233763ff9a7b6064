// Package notify notifies people of held calls, of agents' requests for grants and
// environment variables, and of runs that need attention, by a signed webhook and by
// a Slack message, as the organization configured.
//
// Delivery is at least once: each of these is notified while it needs a person, as
// long as the endpoint accepts it, and every attempt carries the same id.
// Nothing is sent for a call that ended before it was notified. Of the
// processes that share a database, one at a time sends through a channel. A
// message says who requests what. It never contains a param, a result, the
// value of a variable or a secret, and texts of agents and services are escaped
// so that they render as plain text.
//
// Sending does not slow calls down: the sender finds new work in the database
// by itself, and an endpoint that does not answer delays only its own channel.
package notify
