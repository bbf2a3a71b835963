package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
)

// machine is where and with what it was measured.
type machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	OS       string            `json:"os"`
	Go       string            `json:"go"`
	Server   string            `json:"server"`
	Postgres string            `json:"postgres,omitempty"`
	Etcd     string            `json:"etcd,omitempty"`
	Versions map[string]string `json:"versions"` // of libraries
}

// shown are the modules whose versions matter for what is compared.
var shown = []string{
	"github.com/redis/go-redis/v9", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
	"github.com/redis/rueidis",
	"github.com/redis/rueidis/rueidislock", "github.com/jackc/pgx/v5", "go.etcd.io/etcd/client/v3",
	"github.com/holdfast-go/holdfast",
}

// describe says what it can find out; what it cannot is left empty or "unknown".
func describe(ctx context.Context, b *bench) machine {
	m := machine{CPU: "unknown", Cores: runtime.NumCPU(), OS: runtime.GOOS, Go: runtime.Version(), Server: "unknown",
		Versions: map[string]string{}}
	if cpus, err := cpu.InfoWithContext(ctx); err == nil && len(cpus) > 0 && cpus[0].ModelName != "" {
		m.CPU = cpus[0].ModelName
	}
	if kernel, err := host.KernelVersionWithContext(ctx); err == nil {
		m.OS += " " + kernel
	}
	if info, err := b.rdb.Info(ctx, "server").Result(); err == nil {
		m.Server = "Redis " + field(info, "redis_version")
		if v := field(info, "valkey_version"); v != "" {
			m.Server = "Valkey " + v
		}
	}
	if b.etcd != "" {
		m.Etcd, _ = etcdVersion(ctx, b.etcd) // empty if it does not say
	}
	if b.dsn != "" {
		m.Postgres = postgresVersion(ctx, b.dsn)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if slices.Contains(shown, d.Path) {
				m.Versions[strings.TrimPrefix(d.Path, "github.com/")] = d.Version
			}
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				m.Versions["holdfast-go/holdfast"] = s.Value
			}
		}
	}
	if len(b.redisson) > 0 {
		m.Versions["redisson"] = redissonVersion()
	}
	return m
}
