package extproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/benchmarks/children"
)

const (
	readyWait = 30 * time.Second
	stopGrace = 5 * time.Second
)

// server is a server process under measurement.
type server struct {
	name   string
	child  *children.Child
	target string
	meter  *Meter
}

func (s *server) stop() { s.child.Stop(stopGrace) }

// startNoOp runs command with the flags that make it serve a no-op server on free ports.
func startNoOp(ctx context.Context, command []string, environment []string, destinations []string, tls bool) (*server, error) {
	command = append(append([]string(nil), command...),
		"--noop-serve=127.0.0.1:0", "--noop-metrics=127.0.0.1:0", "--noop-destinations="+strings.Join(destinations, ","),
		"--tls="+strconv.FormatBool(tls))
	said := &children.Tail{}
	c, err := children.Start(command, environment, said)
	if err != nil {
		return nil, err
	}
	s := &server{name: "no-op", child: c, meter: &Meter{PID: c.PID()}}
	err = c.Until(ctx, readyWait, func(context.Context) error {
		for line := range strings.Lines(said.String() + "\n") {
			line = strings.TrimSpace(line)
			if at, ok := strings.CutPrefix(line, servingLine); ok {
				s.target = at
			}
			if at, ok := strings.CutPrefix(line, metricsLine); ok {
				s.meter.MetricsURL = at
			}
		}
		if s.target == "" || s.meter.MetricsURL == "" {
			return errors.New("it has not printed its ports")
		}
		return nil
	})
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// startEPP runs command as an endpoint picker on free ports, with configuration and endpoint file written to dir, and
// waits until it has decided a first request. A nil config is the default one.
func startEPP(ctx context.Context, command, environment []string, dir string, e *engines, config []byte, l Load) (*server, error) {
	if config == nil {
		config = []byte(defaultConfig)
	}
	configFile, endpointsFile := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "endpoints.yaml")
	if err := errors.Join(os.WriteFile(configFile, config, 0o600), os.WriteFile(endpointsFile, e.endpointsFile(), 0o600)); err != nil {
		return nil, err
	}
	ports, err := children.FreePorts(3)
	if err != nil {
		return nil, fmt.Errorf("ports of the endpoint picker: %w", err)
	}
	command = append(append([]string(nil), command...),
		"--config-file", configFile, "--endpoints", endpointsFile,
		"--grpc-port", strconv.Itoa(ports[0]), "--grpc-health-port", strconv.Itoa(ports[1]), "--metrics-port", strconv.Itoa(ports[2]),
		"--secure-serving="+strconv.FormatBool(l.TLS))
	c, err := children.Start(command, environment, nil)
	if err != nil {
		return nil, err
	}
	s := &server{
		name: "fairlead", child: c, target: "127.0.0.1:" + strconv.Itoa(ports[0]),
		meter: &Meter{PID: c.PID(), MetricsURL: fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[2])},
	}
	probe := l
	probe.Target, probe.Connections, probe.Concurrency, probe.Rate = s.target, 1, 1, 0
	probe.Requests, probe.Duration, probe.Timeout = 1, 0, 2*time.Second
	probe.Mode, probe.Chunks = Headers, 0
	err = c.Until(ctx, readyWait, func(ctx context.Context) error {
		r, err := Run(ctx, probe)
		if err == nil && r.Decisions == 0 {
			err = errors.New(strings.Join(r.Examples, "; "))
		}
		return err
	})
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}
