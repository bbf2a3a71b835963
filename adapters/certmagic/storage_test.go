package holdfastcertmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/holdfast-go/holdfast"
	holdfastcertmagic "github.com/holdfast-go/holdfast/adapters/certmagic"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// site is a name with a star, as certmagic's names for locks have.
const site = "*.example.com"

// issue is certmagic's name for the lock of a site.
const issue = "issue_cert_" + site

// prefixed is the name of a lock in Redis.
func prefixed(t *testing.T, name string) string { return t.Name() + ":" + name }

// newStorage makes the Storage of one process, over the files in dir.
func newStorage(t *testing.T, dir string) *holdfastcertmagic.Storage {
	c := adaptertest.Client(t)
	return holdfastcertmagic.New(&certmagic.FileStorage{Path: dir}, func(name string) holdfast.Locker {
		return rlock.New(c, prefixed(t, name))
	})
}

// authority issues certificates for real keys.
type authority struct {
	key     *ecdsa.PrivateKey
	section adaptertest.Section
	stay    time.Duration
}

func newAuthority(t *testing.T, stay time.Duration) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &authority{key: key, stay: stay}
}

func (*authority) IssuerKey() string { return "test" }

func (a *authority) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.section.Linger(ctx, a.stay)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, csr.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// config is that of one process. Its cache ends with the test.
func config(t *testing.T, s certmagic.Storage, a *authority) *certmagic.Config {
	var cfg *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil },
		Logger:           zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	cfg = certmagic.New(cache, certmagic.Config{
		Storage: s, Issuers: []certmagic.Issuer{a}, Logger: zap.NewNop(), DisableARI: true,
	})
	return cfg
}

// obtain has three processes obtain one certificate at once.
func obtain(t *testing.T, storage func(dir string) certmagic.Storage, a *authority) {
	t.Helper()
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 3 {
		cfg := config(t, storage(dir), a)
		all.Go(func() { assert.NoError(t, cfg.ObtainCertSync(context.Background(), site)) })
	}
	all.Wait()
}

// TestOneIssue: of three processes one obtains the certificate, and the others find it.
func TestOneIssue(t *testing.T) {
	a := newAuthority(t, 50*time.Millisecond)
	obtain(t, func(dir string) certmagic.Storage { return newStorage(t, dir) }, a)
	require.Equal(t, 1, a.section.Runs())
	adaptertest.RequireFree(t, prefixed(t, issue))
}

// unlocked is a storage whose locks do nothing.
type unlocked struct{ certmagic.FileStorage }

func (*unlocked) Lock(context.Context, string) error   { return nil }
func (*unlocked) Unlock(context.Context, string) error { return nil }

// TestOneIssueControl: without a lock several obtain it.
func TestOneIssueControl(t *testing.T) {
	a := newAuthority(t, 10*time.Second)
	obtain(t, func(dir string) certmagic.Storage { return &unlocked{certmagic.FileStorage{Path: dir}} }, a)
	require.Greater(t, a.section.Runs(), 1)
}

// unlucky is a Storage that loses each lock of a site before the first attempt.
type unlucky struct {
	*holdfastcertmagic.Storage
	t      *testing.T
	locked chan struct{}
}

func (u *unlucky) Lock(ctx context.Context, name string) error {
	err := u.Storage.Lock(ctx, name)
	if err == nil && name == issue {
		adaptertest.Lose(u.t, prefixed(u.t, name))
		adaptertest.Eventually(u.t, "the holder knows", func() bool { return u.Storage.RenewLockLease(ctx, name, 0) != nil })
		close(u.locked)
	}
	return err
}

// deaf hides RenewLockLease.
type deaf struct {
	certmagic.Storage
}

// TestLoss: no attempt is made while another holder has the lock, nor is it freed. Without RenewLockLease the attempt is made.
func TestLoss(t *testing.T) {
	for name, control := range map[string]bool{"": false, "control": true} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t, 0)
			u := &unlucky{newStorage(t, t.TempDir()), t, make(chan struct{})}
			var s certmagic.Storage = u
			if control {
				s = &deaf{u}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tried := make(chan struct{})
			cfg := config(t, s, a)
			cfg.Logger = hearing(t, "will retry", tried)
			done := make(chan error, 1)
			go func() { done <- cfg.ObtainCertAsync(ctx, site) }()
			adaptertest.Receive(t, "the loss", u.locked)
			if control {
				require.NoError(t, adaptertest.Receive(t, "the end", done))
				require.Equal(t, 1, a.section.Runs())
			} else {
				adaptertest.Receive(t, "an attempt", tried)
				cancel() // or it would try again in a minute
				require.Error(t, adaptertest.Receive(t, "the end", done))
				require.Zero(t, a.section.Runs())
			}
			adaptertest.RequireStrangers(t, prefixed(t, issue))
		})
	}
}

// hearing is a logger that closes a channel at a line.
func hearing(t *testing.T, line string, heard chan struct{}) *zap.Logger {
	var once sync.Once
	l, err := zap.Config{
		Level: zap.NewAtomicLevelAt(zap.DebugLevel), Encoding: "json", EncoderConfig: zap.NewProductionEncoderConfig(),
	}.Build(zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == line {
			once.Do(func() { close(heard) })
		}
		return nil
	}))
	require.NoError(t, err)
	return l
}

// TestRenewTakesAnew: a lock that was lost, and that nobody has, is taken again for the next attempt.
func TestRenewTakesAnew(t *testing.T) {
	s := newStorage(t, t.TempDir())
	require.NoError(t, s.Lock(t.Context(), "a"))
	require.NoError(t, s.RenewLockLease(t.Context(), "a", time.Minute))
	adaptertest.Lose(t, prefixed(t, "a"))
	adaptertest.Eventually(t, "the loss is known", func() bool {
		err := s.RenewLockLease(t.Context(), "a", time.Minute)
		return errors.Is(err, holdfast.ErrLost) && errors.Is(err, holdfast.ErrNotAcquired)
	})
	adaptertest.GiveBack(t, prefixed(t, "a"))
	require.NoError(t, s.RenewLockLease(t.Context(), "a", time.Minute))
	require.True(t, adaptertest.Taken(t, prefixed(t, "a")))
	require.NoError(t, s.Unlock(t.Context(), "a"))
	require.ErrorIs(t, s.Unlock(t.Context(), "a"), holdfast.ErrReleased)
	adaptertest.RequireFree(t, prefixed(t, "a"))
}

// TestUnlockByName: the unlock of the one who lost a lock does not free it for the one who has it now, in the same process.
func TestUnlockByName(t *testing.T) {
	s := newStorage(t, t.TempDir())
	require.NoError(t, s.Lock(t.Context(), "a"))
	adaptertest.Lose(t, prefixed(t, "a"))
	adaptertest.Eventually(t, "the loss is known", func() bool { return s.RenewLockLease(t.Context(), "a", 0) != nil })
	adaptertest.GiveBack(t, prefixed(t, "a"))
	require.NoError(t, s.Lock(t.Context(), "a"))
	require.NoError(t, s.RenewLockLease(t.Context(), "a", 0), "that of the second, who may go on")
	require.NoError(t, s.Unlock(t.Context(), "a"), "that of the first")
	require.NoError(t, s.RenewLockLease(t.Context(), "a", 0))
	require.True(t, adaptertest.Taken(t, prefixed(t, "a")))
	require.NoError(t, s.Unlock(t.Context(), "a"), "that of the second")
	adaptertest.RequireFree(t, prefixed(t, "a"))
	require.ErrorIs(t, s.RenewLockLease(t.Context(), "a", 0), holdfast.ErrReleased)
	adaptertest.RequireFree(t, prefixed(t, "a"))
}

// TestTryLock: somebody else has it, or not; and Lock waits for as long as its context says.
func TestTryLock(t *testing.T) {
	a, b := newStorage(t, t.TempDir()), newStorage(t, t.TempDir())
	ok, err := a.TryLock(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, ok)
	for range 2 { // of another process, and of the same
		ok, err = b.TryLock(t.Context(), "a")
		require.NoError(t, err)
		require.False(t, ok)
		a, b = b, a
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Lock(ctx, "a"), context.Canceled)
	require.NoError(t, a.Unlock(ctx, "a"), "under a context that has ended")
	adaptertest.RequireFree(t, prefixed(t, "a"))
	require.ErrorIs(t, holdfastcertmagic.New(a, nil).Lock(t.Context(), "a"), holdfast.ErrInvalid)
	_, err = a.TryLock(t.Context(), "{")
	require.ErrorIs(t, err, holdfast.ErrInvalid)
}
