package main

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// diskWait returns the median time that a small durable write takes in dir.
// A call that is written down durably cannot be faster.
func diskWait(dir string) (time.Duration, error) {
	file, err := os.Create(filepath.Join(dir, "disk"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var took []time.Duration
	page := make([]byte, 4096)
	for range 50 {
		start := time.Now()
		if _, err := file.Write(page); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
