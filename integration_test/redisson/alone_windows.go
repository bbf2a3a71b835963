package redisson

import (
	"errors"
	"os"
)

// alone: Windows has no flock, and no Redis to test with.
func alone(*os.File) error { return errors.New("the worker of Redisson is built on Unix only") }
