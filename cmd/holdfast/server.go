package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// serverEnv names another server than the one on the PATH, as it does for the tests.
const serverEnv = "HOLDFAST_REDIS_SERVER"

// server is what the demo runs on. stop ends it if it is the demo's own.
type server struct {
	address  address
	about    string
	emulated bool
	stop     func() // as a crash does; a second call does nothing
}

// startServer starts a private redis-server or valkey-server. It starts an emulation inside this
// process if there is no such program, if the program does not start, or if emulate gives a reason
// for an emulation.
func startServer(ctx context.Context, emulate string) (*server, error) {
	if emulate != "" {
		return emulation(emulate)
	}
	bin := findServer()
	if bin == "" {
		return emulation("there is no redis-server on the PATH")
	}
	s, err := private(ctx, bin)
	if err != nil && ctx.Err() == nil {
		return emulation(fmt.Sprintf("%s did not start: %v", filepath.Base(bin), err))
	}
	return s, err
}

func findServer() string {
	names := []string{"redis-server", "valkey-server"}
	if want := os.Getenv(serverEnv); want != "" {
		names = []string{want}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// emulation is miniredis with a clock that ticks: leases end by themselves, as on a real server.
func emulation(why string) (*server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, err
	}
	return &server{newAddress("redis://" + m.Addr()), "an emulation of Redis (miniredis), " + why, true, m.Close}, nil
}

// private starts a server that listens on a socket in a directory of its own and nowhere else, so
// it needs no port that another could take. It keeps nothing.
func private(ctx context.Context, bin string) (*server, error) {
	place := os.TempDir()
	if !socketForm.MatchString(place) { // no address has it
		place = "/tmp"
	}
	dir, err := os.MkdirTemp(place, "holdfast-")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(bin, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--dir", dir, "--logfile", filepath.Join(dir, "log"))
	p, err := launch(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop := func() {
		p.kill()
		_ = os.RemoveAll(dir) // a directory left over in the place for such is no reason to fail
	}
	about, err := awaitServer(ctx, p, socket)
	if err != nil {
		stop()
		return nil, err
	}
	return &server{newAddress("unix://" + socket), about + ", started for this demo", false, stop}, nil
}

// awaitServer waits until the server answers, and returns what it is. It looks for the socket
// first, because go-redis takes its time over one that is not there.
func awaitServer(ctx context.Context, p *process, socket string) (string, error) {
	rdb, err := connect("unix://" + socket)
	if err != nil {
		return "", err
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errors.New("no answer"))
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(socket); err == nil {
			if about, err := identify(ctx, rdb); err == nil {
				return about, nil
			}
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return "", errors.New("it ended at once")
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// identify asks a server for its name and version.
func identify(ctx context.Context, rdb redis.UniversalClient) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	var reply redis.Error
	if err != nil && (!errors.As(err, &reply) || refuses(err)) {
		return "", err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[key] = value
	}
	switch {
	case fields["valkey_version"] != "":
		return "valkey-server " + printable.Name(fields["valkey_version"]), nil
	case fields["redis_version"] != "":
		return "redis-server " + printable.Name(fields["redis_version"]), nil
	}
	return "a server that does not say what it is", nil
}
