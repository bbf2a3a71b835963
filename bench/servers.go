package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a program that the benchmark started for itself.
type server struct {
	cmd  *exec.Cmd
	stop func()
}

// spawn starts a server with its output in a file. It dies with the benchmark.
func spawn(cmd *exec.Cmd, log string) (*server, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the server has its own descriptor
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &server{cmd, func() {
		_ = cmd.Process.Kill() // what it holds is of no use to anybody
		_ = cmd.Wait()
	}}, nil
}

// startRedis starts a server without persistence on a free port.
func startRedis(ctx context.Context, dir string) (addr string, stop func(), err error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		if bin, err = exec.LookPath("valkey-server"); err != nil {
			return "", nil, errors.New("no redis-server and no valkey-server on the PATH; install one, or name a running server with -server")
		}
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(bin, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", dir)
	log := filepath.Join(dir, "redis.log")
	s, err := spawn(cmd, log)
	if err != nil {
		return "", nil, err
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	if err := eventually(ctx, func() error { return rdb.Ping(ctx).Err() }); err != nil {
		s.stop()
		return "", nil, fmt.Errorf("%s does not answer: %w; it said: %s", bin, err, fileTail(log))
	}
	return addr, s.stop, nil
}

// masterCount is the number that the Redis documentation advises for a quorum.
const masterCount = 5

// startMasters starts servers that know nothing of each other.
func startMasters(ctx context.Context, dir string) (addrs []string, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, one := range stops {
			one()
		}
	}
	for i := range masterCount {
		own := filepath.Join(dir, "master-"+strconv.Itoa(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			stop()
			return nil, nil, err
		}
		addr, stopOne, err := startRedis(ctx, own)
		if err != nil {
			stop()
			return nil, nil, err
		}
		addrs, stops = append(addrs, addr), append(stops, stopOne)
	}
	return addrs, stop, nil
}

// eventually waits up to ten seconds for a server to be there.
func eventually(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return err
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func fileTail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return tail(string(b))
}
