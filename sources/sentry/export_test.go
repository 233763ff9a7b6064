package sentry

// Limited is what the module tells the client of outbound requests of limits.
var Limited = limited
