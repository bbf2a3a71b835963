package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// etcdClient locks with etcd's mutex. Its owner is a session: two goroutines on one session both
// hold the lock, so each has its own.
type etcdClient struct {
	client *etcd.Client
	lease  time.Duration

	mu       sync.Mutex // guards the rest
	sessions []*concurrency.Session
}

func openEtcd(j job) (client, error) {
	c, err := etcd.New(etcd.Config{Endpoints: []string{j.Etcd}, DialTimeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	return &etcdClient{client: c, lease: cmp.Or(j.Lease, time.Minute)}, nil
}

func (c *etcdClient) locker(_ context.Context, name string) (locker, error) {
	s, err := concurrency.NewSession(c.client, concurrency.WithTTL(int(c.lease/time.Second)))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.sessions = append(c.sessions, s)
	c.mu.Unlock()
	m := concurrency.NewMutex(s, name)
	return func(ctx context.Context) (func() error, uint64, error) {
		if err := m.Lock(ctx); err != nil {
			return nil, 0, err
		}
		return func() error { return m.Unlock(context.Background()) }, 0, nil
	}, nil
}

func (c *etcdClient) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for _, s := range c.sessions {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, c.client.Close())
}

// startEtcd starts a server of one node, with its defaults: it syncs every write. An error says why
// there is none.
func startEtcd(ctx context.Context, dir string) (endpoint string, stop func(), err error) {
	bin, err := exec.LookPath("etcd")
	if err != nil {
		return "", nil, errors.New("no etcd server here")
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	peerPort, err := freePort()
	if err != nil {
		return "", nil, err
	}
	endpoint, peer := fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", peerPort)
	cmd := exec.Command(bin, "--name", "bench", "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "bench="+peer)
	log := filepath.Join(dir, "etcd.log")
	s, err := spawn(cmd, log)
	if err != nil {
		return "", nil, err
	}
	err = eventually(ctx, func() error {
		_, err := etcdVersion(ctx, endpoint)
		return err
	})
	if err != nil {
		s.stop()
		return "", nil, fmt.Errorf("etcd does not answer: %w; it said: %s", err, fileTail(log))
	}
	return endpoint, s.stop, nil
}

func etcdVersion(ctx context.Context, endpoint string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := etcd.New(etcd.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return "", err
	}
	defer c.Close()
	status, err := c.Status(ctx, endpoint)
	if err != nil {
		return "", err
	}
	return status.Version, nil
}
