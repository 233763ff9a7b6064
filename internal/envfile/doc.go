// Package envfile writes environment variables into the files of a workspace
// that a specification names, and removes them again.
//
// It promises that nothing is written before everything that is required is
// there; that files are readable by their owner alone and appear whole or not
// at all; that nothing is written through a symbolic link or outside of the
// workspace; that a file which it did not write is neither replaced unasked nor
// removed; and that git is told to leave the files alone. It does not keep the
// values from whoever runs as the same user.
package envfile
