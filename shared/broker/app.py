"""The Celery application: one task, acknowledged early, nothing prefetched, no results."""

from __future__ import annotations

from typing import Any

from celery import Celery

from shared.broker.names import FARM_QUEUE

# A frozen broker blocks a client for ever unless its sockets have timeouts; Celery's own retry policies do not
# bound the connect loop inside kombu, these options do. `retry_on_timeout` stays off: with it kombu cannot
# send a batch, since a repeated pipeline could send messages twice.
_BOUNDED: dict[str, Any] = {
    "socket_connect_timeout": 3,
    "socket_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 25,
    "max_retries": 0,
    "interval_start": 0,
    "interval_step": 0.2,
    "interval_max": 0.5,
}


def make_app(broker_url: str) -> Celery:
    """A Celery application that speaks to this broker; without tasks, which the worker registers."""
    app = Celery("crw", broker=broker_url, set_as_current=False)
    app.conf.update(
        result_backend=None,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        event_serializer="json",
        task_default_queue=FARM_QUEUE,
        # A message is a hint; the claim and the outbox do what late acknowledgement would do, without its
        # duplicates at each hiccup of the broker and its crash when the broker goes down under a running task.
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_send_task_events=True,
        # Each publication has an id of its own: `sent` events would leave tasks in Flower that never start.
        task_send_sent_event=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            **_BOUNDED,
            # Queues are served in the order in which a worker names them: its host's own first.
            "queue_order_strategy": "priority",
            "priority_steps": [0],
        },
    )
    return app


def worker_options(host: str, concurrency: int, queues: list[str]) -> dict[str, Any]:
    """How a Celery worker of the farm is started: `app.Worker(**worker_options(...))`.

    Threads, because a call waits for an App Server or a command nearly all its life.
    Mingling and gossip would cost a second at each start and say nothing that Postgres does not.
    """
    return {
        "hostname": f"crw@{host}",
        "pool": "threads",
        "concurrency": concurrency,
        "queues": queues,
        "task_events": True,
        "without_mingle": True,
        "without_gossip": True,
        "quiet": True,
        "loglevel": "WARNING",
    }
