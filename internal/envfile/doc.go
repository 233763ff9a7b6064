// Package envfile writes environment variables to the files of a workspace that
// a specification names, and removes them again.
//
// It writes nothing before all required values are present. Files are readable
// by their owner only and are replaced atomically. It writes neither through
// symbolic links nor outside of the workspace, does not replace a file of
// others unless asked and never removes one, and makes git ignore the files. It
// does not protect the values from processes of the same user.
package envfile
