// Command bench measures what the gateway costs.
//
// It drives the same lean client against three targets, each a process of its
// own on loopback: the upstream itself (direct), the thinnest possible proxy
// in front of it, and the gateway in front of it with policy, durable audit
// and SQLite. The targets take turns within every round, so that a noisy
// machine disturbs all alike, and the ratios are medians over the rounds.
//
// Its promise is a fair comparison on one machine in one run. Absolute figures
// of different machines or runs say little.
package main
