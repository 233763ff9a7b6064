// Package vault encrypts what must be stored but not read, such as full params
// and results of invocations and secrets of organizations. It also computes the
// keyed hashes by which redacted values can be compared.
//
// It guarantees: a sealed value opens only for the place it was sealed for
// (organization, table, row and column), only with its master key, and only
// unaltered; neither sealed bytes nor hashes disclose anything but the length
// of the value.
//
// Several master keys can open while the first one seals, so that a key can be
// rotated while the vault is in use: put the new one first, reseal everything,
// drop the old one. The hash key does not change with it and must be kept. An
// old key that may still be needed can be shelved, which does not prevent
// further rotations.
//
// It does not prevent somebody with write access to the database from restoring
// an older value of the same place.
package vault
