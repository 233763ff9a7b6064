// Command bench measures what the gateway costs.
//
// It drives the same lean client against three targets, each a process of its
// own on loopback: the upstream itself (direct), the thinnest possible proxy
// in front of it, and the gateway in front of it with policy and durable audit,
// on SQLite and on PostgreSQL, in both eras of the protocol. Beside calls it asks
// for lists of tools, and times a gateway from its start on an empty folder to its
// first answered call. The targets take turns within every round, so that a noisy
// machine disturbs all alike, and the ratios are medians over the rounds.
//
// "bench check -baseline FILE" holds the ratios of such a report against those of
// an earlier one, and fails when one is worse by more than 15 % beyond half of what
// lies between the rounds of either report.
//
// "bench instances" measures what depends on where the rows are and on how many
// instances share them: the gateway alone on SQLite, three on a PostgreSQL with
// a Valkey, and three without one.
//
//   - From an approval to the answer: calls are held on the first instance and
//     approved one by one through the API of the last. The clock runs from the
//     request of the approver, and again from his 200, to the last byte that the
//     caller gets. The pauses between approvals are long enough for one not to
//     wait for another, and uneven, so that they are not in step with polling.
//   - Calls held at once: ten thousand, each on a connection with its progress,
//     on one instance. What they cost is its memory with them less its memory
//     before, by its own /metrics: the most that was resident while garbage came
//     and went, and of that what lives. Then all are approved, a few at a time.
//
// Both end with an error unless every call was answered and had exactly one
// effect. PostgreSQL writes durably; its data lies where that of the gateways
// does. Whatever holds the calls is on the same machine and is told beside them.
//
// "bench git" clones through the gateway and from the forge, and measures the time to
// the first byte of a fetch and the memory of open streams.
//
// "bench models" streams answers of models through the gateway and from the provider,
// and measures the time to the first byte and the memory of open streams.
//
// "bench webhooks" sends signed deliveries at a steady rate, whatever becomes of
// those before, to one gateway on SQLite and one on PostgreSQL, which work them
// off meanwhile. The clock runs from when a delivery was due, so that one that
// waits behind a slow one counts as slow; and again from its request. It ends
// with an error unless each delivery became one run. Who sends them is on the
// same machine, too.
//
// What many rows cost is for "make bench-growth".
//
// Its promise is a fair comparison on one machine in one run. Absolute figures
// of different machines or runs say little.
package main
