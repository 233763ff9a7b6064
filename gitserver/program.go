package gitserver

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// The oldest version of git that reads packs of pushes. Older ones ignore
// GIT_CONFIG_GLOBAL, or lack security fixes.
const (
	minGitMajor = 2
	minGitMinor = 32
)

var gitVersion = regexp.MustCompile(`^git version (([0-9]+)\.([0-9]+)[.0-9]*)`)

// FindProgram returns the path and the version of the git program on the PATH. Without
// one, or with one that is too old, the error says what to do.
func FindProgram(ctx context.Context) (path, version string, err error) {
	if path, err = exec.LookPath("git"); err != nil {
		return "", "", fmt.Errorf("there is no git program on this machine, so pushes through the gateway are refused; install git %d.%d or later and restart the gateway", minGitMajor, minGitMinor)
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	said, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return "", "", fmt.Errorf("%s does not run (%w), so pushes through the gateway are refused; repair it and restart the gateway", path, err)
	}
	parts := gitVersion.FindStringSubmatch(string(said))
	if parts == nil {
		return "", "", fmt.Errorf("%s does not report its version, so pushes through the gateway are refused; install git %d.%d or later and restart the gateway", path, minGitMajor, minGitMinor)
	}
	major, _ := strconv.Atoi(parts[2]) // digits
	minor, _ := strconv.Atoi(parts[3])
	if major < minGitMajor || major == minGitMajor && minor < minGitMinor {
		return "", "", fmt.Errorf("%s has version %s, so pushes through the gateway are refused; install git %d.%d or later and restart the gateway", path, parts[1], minGitMajor, minGitMinor)
	}
	return path, parts[1], nil
}
